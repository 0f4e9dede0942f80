"""The certificate of a task: what can be shown by running it, and by what a model tries; and its package."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from facet_dagster.domain.facts import ArtifactFact, Fact
from facet_dagster.domain.findings import KnownState, kill_matrix
from facet_dagster.domain.outcome import Rejection
from facet_dagster.domain.scenario import Scenario
from facet_dagster.domain.skill import Skill
from facet_dagster.domain.task import Certificate, Level, Task
from facet_dagster.errors import InvariantError
from facet_dagster.funnel import Outcome
from facet_dagster.ports import LLM, ArtifactStore, Sandbox
from facet_dagster.stages.task.certificate import leaks
from facet_dagster.stages.task.certificate.attacks import accepted_attack
from facet_dagster.stages.task.certificate.bench import WRONG, Bench
from facet_dagster.stages.task.certificate.conditions import oracle, steady
from facet_dagster.stages.task.certificate.file_mutants import judged_equivalents, judged_mutants
from facet_dagster.stages.task.certificate.final import Final
from facet_dagster.stages.task.examine import NOTHING_KEPT, Kept, examine
from facet_dagster.stages.task.images import e0_archive
from facet_dagster.stages.task.known import remember
from facet_dagster.stages.task.package import TaskLimits, build_package
from facet_dagster.stages.task.validate import trials_of


@dataclass(frozen=True)
class Certified:
    """What a certificate says of one task, and final states that every later version of it must judge alike."""

    outcome: Outcome
    known: tuple[KnownState, ...] = ()


def certify(
    task: Task,
    scenario: Scenario,
    skills: Sequence[Skill],
    *,
    sandbox: Sandbox,
    store: ArtifactStore,
    trial_seconds: float,
    day: date,
    level: Level = "basic",
    llm: LLM | None = None,
) -> Outcome:
    """``certified`` without what a later version of the task needs."""
    done = certified(
        task, scenario, skills, sandbox=sandbox, store=store, trial_seconds=trial_seconds, day=day, level=level, llm=llm
    )
    return done.outcome


def certified(
    task: Task,
    scenario: Scenario,
    skills: Sequence[Skill],
    *,
    sandbox: Sandbox,
    store: ArtifactStore,
    trial_seconds: float,
    day: date,
    level: Level,
    llm: LLM | None,
    kept: Kept = NOTHING_KEPT,
) -> Certified:
    """Value Certificate; the package's archive, which holds it, goes to ``store`` under ``Certificate.package``.

    The first finding that decides is the rejection, and nothing is tried after it. Level ``standard`` asks ``llm``
    for mutants and for another solution when all else went well, beyond what was ``kept``. ``skills`` are the seed's,
    for their names and licences; ``day`` (UTC) is written on the certificate. Raises SandboxError, MalformedReply.
    """
    if not task.valid:
        raise InvariantError(f"Task {task.seed} is not valid and cannot be certified")
    limits, known = TaskLimits.of(trial_seconds), tuple[KnownState, ...]()
    with trials_of(task.draft, task.environment, sandbox=sandbox, limits=limits, packaged=True) as trials:
        bench = Bench(trials, task.draft)
        files = e0_archive(trials.images.environment, sandbox)
        rejection, remarks = _tried(task, bench, files, sandbox)
        if rejection is None and level == "standard":
            rejection, more, known = _examined(task, scenario, bench, llm, store, kept)
            remarks += more
        info = sandbox.image(trials.images.environment)
    numbers = _numbers(bench, remarks)
    if rejection is not None:
        refused = Outcome(rejection=rejection, numbers=numbers, facts=tuple(bench.facts))
        return Certified(refused, (*_accepted_wrong(bench, store), *known))
    certificate = _certificate(task, bench, remarks, level).model_copy(
        update={"day": day.isoformat(), "image_id": info.id if info else ""}
    )
    package = build_package(
        task.draft, task.environment, scenario, skills, e0_archive=files, limits=limits, certificate=certificate
    )
    stored = _store(package.tar(), store)
    facts: tuple[Fact, ...] = (*bench.facts, stored)
    packed = certificate.model_copy(update={"package": stored.sha256})
    return Certified(Outcome(value=packed, numbers=numbers, facts=facts))


def _accepted_wrong(bench: Bench, store: ArtifactStore) -> Iterator[KnownState]:
    for probe, left in bench.wrong:
        yield from remember(left, bench.draft, store, wanted=0, reason=WRONG[probe.kind], why=probe.what)


def _tried(task: Task, bench: Bench, files: bytes, sandbox: Sandbox) -> tuple[Rejection | None, list[str]]:
    """Everything in order, cheapest first: the first rejection, or the remarks that are left. ``files`` are e0."""
    plain, rejection = oracle(bench)
    if rejection is not None or plain.work is None:
        return rejection, []
    final = Final.of(plain.work.left, task.draft.instruction.outputs, files)
    searched = leaks.search(task.draft, task.environment, final, bench.trials.images.environment, sandbox)
    rejection = (
        searched.rejection or steady(bench, plain) or accepted_attack(bench, final, task.environment.recipe.rules_file)
    )
    if rejection is not None:
        return rejection, searched.remarks
    remarks = [] if final.outputs else ["No output of the instruction is a file that the solution made or changed."]
    return None, [*remarks, *searched.remarks, *judged_mutants(bench, final), *judged_equivalents(bench, final)]


def _examined(
    task: Task, scenario: Scenario, bench: Bench, llm: LLM | None, store: ArtifactStore, kept: Kept
) -> tuple[Rejection | None, list[str], tuple[KnownState, ...]]:
    """The rejection of the examination, what it leaves open or finds that does not decide, and known states."""
    if llm is None:
        raise InvariantError("A standard certificate needs a model")
    found = examine(task, scenario, llm=llm, trials=bench.trials, store=store, kept=kept)
    bench.probes += found.probes
    bench.facts += found.facts
    bench.seconds += sum(probe.seconds for probe in found.probes)
    told = [f"{finding.probe} ({finding.component}): {finding.what}" for finding in found.findings]
    return found.rejection, [*found.open, *told], found.known


def _certificate(task: Task, bench: Bench, remarks: Sequence[str], level: Level) -> Certificate:
    environment = task.environment
    probes = tuple(bench.probes)
    return Certificate(
        seed=task.seed,
        level=level,
        oracle=tuple(p.reward for p in probes if p.kind == "oracle" and p.reward is not None),
        baseline=tuple(p.reward for p in probes if p.kind == "baseline" and p.reward is not None),
        image=bench.trials.images.environment,
        base_image=environment.base_image,
        standin=environment.standin,
        snapshot_date=environment.e0.snapshot_date if environment.e0 else "",
        probes=probes,
        kills=kill_matrix(tuple(check.id for check in task.draft.verifier.checks), probes),
        remarks=tuple(remarks),
        seconds=round(bench.seconds, 1),
    )


def _numbers(bench: Bench, remarks: Sequence[str]) -> dict[str, float]:
    probes = bench.probes
    return {
        "oracle": sum(p.reward == 1 for p in probes if p.kind == "oracle"),
        "baseline": sum(p.reward == 0 for p in probes if p.kind == "baseline"),
        "checks": len(bench.draft.verifier.checks),
        "probes": len(probes),
        "not_as_wanted": sum(not p.ok for p in probes),
        "remarks": len(remarks),
    }


def _store(data: bytes, store: ArtifactStore) -> ArtifactFact:
    return ArtifactFact(sha256=store.put(data), kind="package", size=len(data))
