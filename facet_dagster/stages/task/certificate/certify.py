"""The certificate of a task: what can be shown by running it, and by what a model tries; and its package."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date

from facet_dagster.domain.facts import ArtifactFact, Fact
from facet_dagster.domain.findings import KnownState, Probe, kill_matrix
from facet_dagster.domain.outcome import Rejection
from facet_dagster.domain.replies import NO_REPLIES, Replies
from facet_dagster.domain.scenario import Scenario
from facet_dagster.domain.skill import Skill
from facet_dagster.domain.task import Certificate, Level, Task
from facet_dagster.errors import InvariantError
from facet_dagster.funnel import Outcome
from facet_dagster.ports import LLM, ArtifactStore, Sandbox
from facet_dagster.stages.task.blind import blind
from facet_dagster.stages.task.certificate import leaks
from facet_dagster.stages.task.certificate.attacks import accepted_attack
from facet_dagster.stages.task.certificate.bench import WRONG, Bench
from facet_dagster.stages.task.certificate.carried import Carried, with_carried
from facet_dagster.stages.task.certificate.conditions import oracle, steady
from facet_dagster.stages.task.certificate.effort import USUAL, Effort
from facet_dagster.stages.task.certificate.file_mutants import judged_variants
from facet_dagster.stages.task.certificate.final import Final
from facet_dagster.stages.task.certificate.rebuild import rebuilt
from facet_dagster.stages.task.certificate.reseeding import on_other_data
from facet_dagster.stages.task.contexts import Contexts
from facet_dagster.stages.task.examine import NOTHING_KEPT, Kept, examine
from facet_dagster.stages.task.images import e0_archive
from facet_dagster.stages.task.known import remember
from facet_dagster.stages.task.package import TaskLimits, build_package
from facet_dagster.stages.task.render import rules_text
from facet_dagster.stages.task.trial import Trials
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
    effort: Effort = USUAL,
) -> Outcome:
    """``certified`` without what a later version of the task needs."""
    done = certified(
        task,
        scenario,
        skills,
        sandbox=sandbox,
        store=store,
        trial_seconds=trial_seconds,
        day=day,
        level=level,
        llm=llm,
        effort=effort,
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
    effort: Effort = USUAL,
    kept: Kept = NOTHING_KEPT,
) -> Certified:
    """Value Certificate; the package's archive, which holds it, goes to ``store`` under ``Certificate.package``.

    The first finding that decides is the rejection, and nothing is tried after it. Level ``standard`` asks ``llm``
    for mutants and for another solution when all else went well, beyond what was ``kept``, ``strict`` for another
    verifier as well. ``skills`` are the seed's, for their names and licences; ``day`` (UTC) is written on the
    certificate. Raises SandboxError, MalformedReply.
    """
    if not task.valid:
        raise InvariantError(f"Task {task.seed} is not valid and cannot be certified")
    limits = TaskLimits.of(trial_seconds)
    with trials_of(task.draft, task.environment, sandbox=sandbox, limits=limits, packaged=True) as trials:
        files = e0_archive(trials.images.environment, sandbox)
        bench = Bench(knowing(trials, files), task.draft)
        contexts = Contexts.of(task.draft, task.environment, files)
        rejection, remarks = tried(task, bench, files, contexts, sandbox, effort)
        asked = _Asked()
        if rejection is None and level != "basic":
            asked = _by_models(task, scenario, bench, llm, store, kept, strict=level == "strict")
            rejection, remarks = asked.rejection, [*remarks, *asked.remarks]
        if rejection is None and level == "strict":
            rejection, more = rebuilt(bench, contexts.environment, files, sandbox)
            remarks = [*remarks, *more]
        info = sandbox.image(trials.images.environment)
    numbers = _numbers(bench, remarks)
    if rejection is not None:
        refused = Outcome(rejection=rejection, numbers=numbers, facts=tuple(bench.facts))
        return Certified(refused, (*_accepted_wrong(bench, store), *asked.known))
    certificate = _certificate(task, bench, remarks, level).model_copy(
        update={"day": day.isoformat(), "image_id": info.id if info else ""}
    )
    package = build_package(
        task.draft, task.environment, scenario, skills, e0_archive=files, limits=limits, certificate=certificate
    )
    carried = Carried.of(task, scenario, limits=limits, effort=effort, package=package)
    stored = _store(with_carried(package, carried, asked.replies).tar(), store)
    facts: tuple[Fact, ...] = (*bench.facts, stored)
    packed = certificate.model_copy(update={"package": stored.sha256})
    return Certified(Outcome(value=packed, numbers=numbers, facts=facts))


def _accepted_wrong(bench: Bench, store: ArtifactStore) -> Iterator[KnownState]:
    for probe, left in bench.wrong:
        yield from remember(left, bench.draft, store, wanted=0, reason=WRONG[probe.kind], why=probe.what)


def tried(
    task: Task, bench: Bench, files: bytes, contexts: Contexts, sandbox: Sandbox, effort: Effort
) -> tuple[Rejection | None, list[str]]:
    """All that needs no model, in order, cheapest first: the first rejection, or the remarks. ``files`` are e0."""
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
    rejection, more = on_other_data(bench, final, contexts, task.environment, sandbox, most=effort.reseeds)
    remarks += [*searched.remarks, *more]
    return (
        (rejection, remarks)
        if rejection
        else (None, [*remarks, *judged_variants(bench, final, effort, rules_text(task.environment))])
    )


def knowing(trials: Trials, files: bytes) -> Trials:
    """The same trials with the initial state at hand: what a program that does nothing leaves needs no container."""
    return replace(trials, images=replace(trials.images, e0=files))


@dataclass(frozen=True)
class _Asked:
    """What models found, and what of theirs can be tried again."""

    rejection: Rejection | None = None
    remarks: tuple[str, ...] = ()
    replies: Replies = NO_REPLIES
    known: tuple[KnownState, ...] = ()


def _by_models(
    task: Task, scenario: Scenario, bench: Bench, llm: LLM | None, store: ArtifactStore, kept: Kept, *, strict: bool
) -> _Asked:
    """Mutants and a second solution, and where ``strict`` a second verifier when nothing decided before."""
    if llm is None:
        raise InvariantError("A certificate above basic needs a model")
    found = examine(task, scenario, llm=llm, trials=bench.trials, store=store, kept=kept)
    _add(bench, found.probes, found.facts)
    if found.rejection or not strict:
        return _Asked(found.rejection, tuple(found.remarks), found.replies, found.known)
    other = blind(task, scenario, found.replies.second, llm=llm, trials=bench.trials, store=store)
    _add(bench, other.probes, other.facts)
    remarks = (*found.remarks, *([other.open] if other.open else []))
    return _Asked(other.rejection, remarks, found.replies.model_copy(update={"blind": other.reply}))


def _add(bench: Bench, probes: Sequence[Probe], facts: Sequence[Fact]) -> None:
    bench.probes += probes
    bench.facts += facts
    bench.seconds += sum(probe.seconds for probe in probes)


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
