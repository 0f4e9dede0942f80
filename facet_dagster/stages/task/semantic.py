"""Semantic mutants: a model writes wrong readings of single rules into the solution, and each is tried on the verifier.

A survivor whose final state equals the oracle's is a defect of the fixture, since no row can tell the readings apart;
any other is one of the verifier.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from facet_dagster.domain.archive import Member, pack_members, unpack
from facet_dagster.domain.changes import changes
from facet_dagster.domain.facts import AttemptFact, Fact
from facet_dagster.domain.findings import Probe
from facet_dagster.domain.outcome import Component, Reason, Rejection, reject
from facet_dagster.domain.scenario import Scenario
from facet_dagster.domain.semantic import FEWEST, Finding, MutantsReply, SemanticMutant, Sorted, Usable, sort_out
from facet_dagster.domain.task import Draft, SolutionReply, Task
from facet_dagster.errors import MalformedReply
from facet_dagster.ports import LLM, ArtifactStore
from facet_dagster.stages.task.draft import keep, shared_variables
from facet_dagster.stages.task.lint import lint_solution
from facet_dagster.stages.task.render import markdown, script
from facet_dagster.stages.task.trial import Left, Trials
from facet_dagster.stages.task.validate import solve_sh

STAGE = "certificate"
CALL = "semantic_mutants"
SHOWN_PATHS, SHOWN_LINES, DIFF_BYTES, DIFF_CHARS = 5, 6, 65_536, 1_200


@dataclass(frozen=True)
class Tried:
    """The probes of some mutants, what each of them left, and what the survivors say."""

    probes: tuple[Probe, ...]
    findings: tuple[Finding, ...]
    left: tuple[Left, ...] = ()


def write_mutants(
    task: Task, scenario: Scenario, *, llm: LLM, store: ArtifactStore | None, kept: Sequence[SemanticMutant] = ()
) -> tuple[Sorted, list[Fact]]:
    """Ask for mutants, and once more when too few can be used or a discriminator has none.

    ``kept`` were written for an earlier version of the solution: asked is only for what they leave open.
    Raises MalformedReply for a first reply that does not fit, unless some of them can be used.
    """
    draft, ids = task.draft, discriminators(scenario)
    variables = {
        **shared_variables(scenario, task.environment),
        "instruction": markdown(draft.instruction),
        "solution": script(draft.solution.solve_sh),
        "discriminators": list(ids),
    }
    found = usable_mutants(task, kept, ids)
    facts: list[Fact] = []
    for attempt in (0, 1):
        if found.enough(ids):
            break
        missing = found.missing(ids) if attempt or found.usable else ()
        asked = {**variables, **_again(found, missing)}
        try:
            reply = llm.ask(CALL, asked, MutantsReply, subject=task.seed, attempt=attempt)
        except MalformedReply:
            if attempt or found.usable:
                break
            raise
        found = usable_mutants(task, reply.mutants, ids, found)
        facts.append(_fact(task.seed, attempt, found, keep(reply, store)))
    return found, facts


def discriminators(scenario: Scenario) -> tuple[str, ...]:
    return tuple(one.id for one in scenario.reconstruction.discriminators)


def usable_mutants(
    task: Task, mutants: Sequence[SemanticMutant], ids: Sequence[str], before: Sorted | None = None
) -> Sorted:
    """Those that can be tried on the task's solution as it is, and the others."""
    text, services = script(task.draft.solution.solve_sh), bool(task.environment.recipe.services)
    return sort_out(text, mutants, ids, _new_problem(text, services=services), before)


def _new_problem(text: str, *, services: bool) -> Callable[[str], str]:
    """What the rules of solutions say of a script, but not of ``text``."""

    def problems(solve_sh: str) -> list[str]:
        return [p.text for p in lint_solution(SolutionReply(solve_sh=solve_sh, steps=[]), services=services)]

    old = problems(text)
    return lambda mutated: next((said for said in problems(mutated) if said not in old), "")


def _again(found: Sorted, missing: Sequence[str]) -> dict[str, Any]:
    """What the prompt shows of an answer before; nothing of it the first time."""
    shown = {"id", "discriminator", "rule", "find", "replace"}
    return {
        "kept": [one.mutant.model_dump(mode="json", include=shown) for one in found.usable],
        # Said by bash, whose versions word it differently: not in the tape's key.
        "refused": [
            {"mutant": one.mutant.model_dump(mode="json", include=shown), "why": {"log_tail": one.why}}
            for one in found.refused
        ],
        "missing": list(missing),
        "wanted": max(FEWEST - len(found.usable), len(missing), 1),
        "again": bool(found.usable or found.refused),
    }


def _fact(seed: str, attempt: int, found: Sorted, artifact: str) -> AttemptFact:
    refused = " ".join(f"{one.mutant.id}: {one.why}" for one in found.refused)
    return AttemptFact(
        stage=STAGE,
        key=seed,
        kind=CALL,
        round=attempt,
        ok=not found.refused,
        component=CALL,
        summary=f"{len(found.usable)} usable. {refused}"[:1000],
        artifact=artifact,
    )


@dataclass(frozen=True)
class Difference:
    """``paths`` of which content, type, target or presence differs, and the first differing ``lines``.

    ``unsteady``: the solution itself leaves another content there each time, so that nothing follows from it.
    """

    paths: tuple[str, ...]
    lines: str
    unsteady: tuple[str, ...] = ()


def try_mutants(
    mutants: Sequence[Usable], draft: Draft, scenario: Scenario, trials: Trials, oracle: Left | None = None
) -> Tried:
    """Run each of them and judge what it leaves. ``oracle`` is what the solution leaves; it is run when not given.

    When one survives the solution is run once more, to see where its own result is not the same each time.
    Raises SandboxError.
    """
    unsteady: tuple[str, ...] | None = None
    probes: list[Probe] = []
    lefts: list[Left] = []
    survivors: list[tuple[SemanticMutant, Probe, Difference]] = []
    for one in mutants:
        probe, left = _try(one, trials)
        probes.append(probe)
        lefts.append(left)
        if not probe.ok:
            oracle = oracle or trials.work(solve_sh(draft)).left
            if unsteady is None:
                unsteady = difference(oracle, trials.work(solve_sh(draft)).left).paths
            survivors.append((one.mutant, probe, difference(oracle, left, unsteady)))
    told = {one.mutant.discriminator for one, p in zip(mutants, probes, strict=True) if p.ok and not p.crashed}
    rows = {d.id: d.row for d in scenario.reconstruction.discriminators if d.id not in told}
    return Tried(tuple(probes), tuple(_finding(*each, rows) for each in survivors), tuple(lefts))


def _try(one: Usable, trials: Trials) -> tuple[Probe, Left]:
    mutant, work = one.mutant, trials.work(one.script.encode())
    crashed = work.program is None or not work.program.ok
    judged = None if crashed else trials.judge(work.left)
    ran = [program.seconds for program in (work.program, judged.program if judged else None) if program]
    probe = Probe(
        id=mutant.id,
        kind="semantic",
        what=f"{mutant.rule}: {mutant.wrong_reading}",
        wanted=0,
        reward=judged.reward if judged else None,
        failed=judged.failed if judged else (),
        crashed=crashed,
        seconds=round(sum(ran), 3),
    )
    return probe, work.left


def difference(one: Left, other: Left, unsteady: Sequence[str] = ()) -> Difference:
    """Between two final states: in the work directory, and in what was collected from services."""
    paths: list[str] = []
    texts: list[str] = []
    for before, after in ((one.app, other.app), (one.artifacts, other.artifacts)):
        old, new = (archive or pack_members({}) for archive in (before, after))
        differ = [change.path for change in changes(old, new) if change.what != "attributes"]
        contents = unpack(old), unpack(new)
        texts += [_lines(path, *(_text(members.get(path)) for members in contents)) for path in differ[:SHOWN_PATHS]]
        paths += differ
    steady = tuple(path for path in paths if path not in unsteady)
    return Difference(steady, "".join(texts)[:DIFF_CHARS], tuple(path for path in paths if path in unsteady))


def _text(member: Member | None) -> list[str]:
    small = member is not None and member.size <= DIFF_BYTES
    return member.data.decode("utf-8", "replace").splitlines() if member and small else []


def _lines(path: str, old: Sequence[str], new: Sequence[str]) -> str:
    """The first lines that differ, by position: linear, whatever a hostile program wrote."""
    pairs = [(a, b) for a, b in zip_longest(old, new) if a != b][:SHOWN_LINES]
    shown = [f"{sign}{line}\n" for pair in pairs for sign, line in zip("-+", pair, strict=True) if line is not None]
    return f"{path}\n{''.join(shown)}" if shown else ""


def _finding(mutant: SemanticMutant, probe: Probe, found: Difference, rows: Mapping[str, str]) -> Finding:
    """``rows`` are those of discriminators of which no mutant was refused: whether the data tells is open."""
    evidence = {
        "mutant": mutant.model_dump(mode="json", exclude={"id"}),
        "differing": list(found.paths[:SHOWN_PATHS]),
        "difference": found.lines,
        "row": rows.get(mutant.discriminator, ""),
    }
    told = mutant.discriminator not in rows
    component, what, decides = _verdict(probe, found, told=told)
    return Finding(probe=probe.id, component=component, what=what, decides=decides, evidence=evidence)


def _verdict(probe: Probe, found: Difference, *, told: bool) -> tuple[Component, str, bool]:
    """The blamed component, why, and whether this alone refuses the task."""
    if probe.reward is None:
        return Component.VERIFIER, "The verifier gave no valid reward for the result.", True
    if found.paths:
        return Component.VERIFIER, f"The verifier accepts another {', '.join(found.paths[:SHOWN_PATHS])}.", True
    if found.unsteady:
        text = f"The solution leaves another {found.unsteady[0]} each time: this mutant tells nothing."
        return Component.VERIFIER, text, False
    return Component.ENVIRONMENT, "Equivalent on this data: no row tells this reading from the right one.", not told


def survived(tried: Tried) -> Rejection | None:
    """The verifier is blamed first: its repair leaves the data, on which all else rests, as it is."""
    deciding = [finding for finding in tried.findings if finding.decides]
    if not deciding:
        return None
    verifier = [finding for finding in deciding if finding.component is Component.VERIFIER]
    blamed = verifier or deciding
    names = ", ".join(finding.probe for finding in blamed)
    ran = sum(not probe.crashed for probe in tried.probes)
    return reject(
        Reason.TASK_MUTANT_SURVIVED,
        f"{len(blamed)} of {ran} semantic mutants survive: {names}. {blamed[0].what}",
        component=blamed[0].component,
        findings=[finding.model_dump(mode="json") for finding in blamed[:8]],
    )
