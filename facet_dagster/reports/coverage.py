"""From which text each requirement comes and what states, does and tests it; and back: what belongs to none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeVar

from pydantic import BaseModel

from facet_dagster.domain.environment import Environment
from facet_dagster.domain.outcome import Value
from facet_dagster.domain.scenario import Requirement, Scenario
from facet_dagster.domain.task import Draft, Task
from facet_dagster.errors import ConfigError
from facet_dagster.funnel import Memo, current
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.ports import ArtifactStore, Ledger
from facet_dagster.reports.in_force import task_in_force
from facet_dagster.reports.why import resolve
from facet_dagster.settings import Settings

V = TypeVar("V", bound=BaseModel)
_RIDS = re.compile(r"\bR(\d{1,4})(?:\s*(?:-|–|to)\s*R?(\d{1,4}))?")
_RULES = re.compile(r"\brules?\s+(\d+(?:(?:\s*,\s*|\s*(?:-|–)\s*|\s+(?:and|to)\s+)\d+)*)", re.IGNORECASE)
_RANGE = re.compile(r"(\d{1,4})(?:\s*(?:-|–|to)\s*(\d{1,4}))?")


class RequirementLine(Value):
    """A requirement and all that belongs to it.

    ``operations`` are those of the analysis that it comes from, with the place in the skill where each is stated;
    a requirement that the alignment added has none.
    ``sections`` and ``steps`` are counted from 1; ``discriminators`` are those of the rules that it applies.
    """

    rid: str
    text: str
    kind: str
    skill: str
    operations: tuple[str, ...]
    rules: tuple[int, ...]
    sections: tuple[int, ...]
    steps: tuple[int, ...]
    checks: tuple[str, ...]
    discriminators: tuple[str, ...]


class Coverage(Value):
    """The join of one task. ``holes`` are its defects, a sentence each; ``context`` sections state nothing."""

    seed: str
    title: str
    requirements: tuple[RequirementLine, ...]
    context: tuple[int, ...]
    holes: tuple[str, ...]


def coverage_of(ident: str, settings: Settings, ledger: Ledger, store: ArtifactStore) -> Coverage:
    """The coverage of a seed's latest draft; ``ident`` may be any unambiguous prefix. Raises ConfigError."""
    kind, key = resolve(ident, ledger)
    if kind != "seed":
        raise ConfigError(f"{key} is a {kind}, and only seeds have requirements: `facet seeds` lists them")
    values = _Values(key, settings, ledger, store)
    scenario = values.get(Scenario, "scenario")
    task = values.task()
    if scenario is not None and task is not None:
        return coverage(task.draft, task.environment, scenario)
    draft, environment = values.get(Draft, "task_draft"), values.get(Environment, "environment")
    if scenario is None or draft is None or environment is None:
        raise ConfigError(f"Seed {key} has no draft yet: `facet why {key}` tells how far it came")
    return coverage(draft, environment, scenario)


def scenario_of(ident: str, settings: Settings, ledger: Ledger, store: ArtifactStore) -> Scenario:
    """The current scenario of a seed. Raises ConfigError."""
    kind, key = resolve(ident, ledger)
    found = _Values(key, settings, ledger, store).get(Scenario, "scenario") if kind == "seed" else None
    if found is None:
        raise ConfigError(f"{kind} {key} has no scenario: `facet why {key}` tells how far it came")
    return found


class _Values:
    """The current values of one seed."""

    def __init__(self, key: str, settings: Settings, ledger: Ledger, store: ArtifactStore) -> None:
        self._key, self._ledger, self._store = key, ledger, store
        self._graph, self._memo = seed_stages(settings), Memo()

    def task(self) -> Task | None:
        return task_in_force(self._key, self._graph, self._ledger, self._store, self._memo)

    def get(self, kind: type[V], stage: str) -> V | None:
        result = current(self._graph._asdict()[stage], [self._key], self._ledger, self._memo).get(self._key)
        if result is None or result.output is None:
            return None
        return kind.model_validate_json(self._store.get(result.output))


def coverage(draft: Draft, environment: Environment, scenario: Scenario) -> Coverage:
    """Pure over values."""
    lines = tuple(_line(requirement, draft, scenario) for requirement in scenario.references.requirements)
    return Coverage(
        seed=draft.seed,
        title=draft.instruction.title,
        requirements=lines,
        context=tuple(n for n, section in enumerate(draft.instruction.sections, 1) if not section.rids),
        holes=(*_forward(lines), *_backward(lines, draft, environment, scenario)),
    )


def _line(requirement: Requirement, draft: Draft, scenario: Scenario) -> RequirementLine:
    rid, rules = requirement.rid, rules_in(requirement.text)
    return RequirementLine(
        rid=rid,
        text=requirement.text,
        kind=requirement.kind,
        skill=requirement.skill,
        operations=_operations(requirement, scenario),
        rules=rules,
        sections=tuple(n for n, section in enumerate(draft.instruction.sections, 1) if rid in section.rids),
        steps=tuple(n for n, step in enumerate(draft.solution.steps, 1) if rid in rids_in(step)),
        checks=tuple(check.id for check in draft.verifier.checks if check.rid == rid),
        discriminators=tuple(
            d.id for d in scenario.reconstruction.discriminators if set(rules) & set(_rules_of(d.rule))
        ),
    )


def rids_in(text: str) -> set[str]:
    """Requirement ids that a text names; ``R2-R4`` and ``R2 to R4`` are three."""
    found = [(int(m[1]), int(m[2] or m[1])) for m in _RIDS.finditer(text)]
    return {f"R{n}" for first, last in found for n in range(first, min(last, first + 100) + 1)}


def rules_in(text: str) -> tuple[int, ...]:
    """Numbers of the rules that a text names, ascending: of ``(rules 3, 5 to 7)`` 3, 5, 6, 7."""
    return tuple(sorted({n for m in _RULES.finditer(text) for n in _numbers(m[1])}))


def _numbers(text: str) -> Iterator[int]:
    for match in _RANGE.finditer(text):
        yield from range(int(match[1]), min(int(match[2] or match[1]), int(match[1]) + 100) + 1)


def _rules_of(condition: str) -> tuple[int, ...]:
    """A discriminator begins with its rule's number, with or without the word."""
    return tuple(_numbers(condition.partition(":")[0]))


def _operations(requirement: Requirement, scenario: Scenario) -> tuple[str, ...]:
    places = {span.operation: f"{span.skill} {span.part} {span.start}-{span.end}" for span in scenario.spans}
    return tuple(
        f"{operation.id} [{places.get(operation.id, 'common practice')}]: {operation.text}"
        for skill in scenario.analysis.skills
        for operation in skill.operations
        if operation.id in requirement.sources
    )


def _forward(lines: tuple[RequirementLine, ...]) -> Iterator[str]:
    for line in lines:
        if not line.sections:
            yield f"Requirement {line.rid} is stated in no section of the instruction."
        if not line.steps and line.kind != "invariant":  # what stays as it is needs no step
            yield f"Requirement {line.rid} is done in no step of the solution."
        if not line.checks:
            yield f"Requirement {line.rid} is tested by no check."


def _backward(
    lines: tuple[RequirementLine, ...], draft: Draft, environment: Environment, scenario: Scenario
) -> Iterator[str]:
    known = {line.rid for line in lines}
    for n, section in enumerate(draft.instruction.sections, 1):
        if section.rids and not known & set(section.rids):
            yield f"Section {n} of the instruction states {', '.join(section.rids)}, which is no requirement."
    for n, step in enumerate(draft.solution.steps, 1):
        if not known & rids_in(step):
            yield f"Step {n} of the solution belongs to no requirement: {step[:80]}"
    for check in draft.verifier.checks:
        if check.rid not in known:
            yield f"Check {check.id} tests {check.rid}, which is no requirement."
    yield from _untraced(lines, draft, environment, scenario)


def _untraced(
    lines: tuple[RequirementLine, ...], draft: Draft, environment: Environment, scenario: Scenario
) -> Iterator[str]:
    """Discriminators whose way to a rule, a row or a check is broken."""
    joined = {ident for line in lines for ident in line.discriminators}
    looked_at = {ident for check in draft.verifier.checks for ident in check.discriminators}
    placed = {ident for file in (environment.e0.files if environment.e0 else ()) for ident in file.rows}
    for row in scenario.reconstruction.discriminators:
        if row.id not in joined:
            yield f"Discriminator {row.id} is about {row.rule[:60]!r}, a rule that no requirement applies."
        if environment.e0 and row.id not in placed:
            yield f"The row of discriminator {row.id} is not in the initial state."
        if row.id not in looked_at:
            yield f"No check looks at the row of discriminator {row.id}."
