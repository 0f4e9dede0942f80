"""What the page of one seed shows, from the reports that the command line prints too."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, TypeVar

from pydantic import BaseModel

from facet_dagster.domain.environment import Environment
from facet_dagster.domain.facts import AttemptFact, CheckFact, ModelCallFact, TrialFact
from facet_dagster.domain.outcome import Value
from facet_dagster.domain.task import Certificate, Draft, Task, TaskRepairReply
from facet_dagster.errors import LedgerError
from facet_dagster.funnel import Memo, current
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.ports import ArtifactStore, Ledger
from facet_dagster.reports.why import Why, why
from facet_dagster.settings import Settings
from facet_dagster.stages.task.render import checks_module, markdown, script

V = TypeVar("V", bound=BaseModel)
SHOWN = 20_000  # characters of one text
DIFFED = 4_000  # of each side of an edit: to compare takes the square of it


class Matrix(Value):
    """Checks over what was judged: ``cells`` hold a check's status or nothing, in the order of ``columns``."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, str, str, int, tuple[str, ...]], ...]  # id, requirement, title, states refused, cells


class Edit(Value):
    """An edit of a repair: ``find`` and ``replace`` of one target; ``diff`` are its lines, each with its mark."""

    round: int
    component: str
    target: str
    find: str
    replace: str

    @property
    def diff(self) -> list[str]:
        lines = difflib.ndiff(self.find[:DIFFED].splitlines(), self.replace[:DIFFED].splitlines())
        return [line for line in lines if line[:1] != "?"]


class Story(Value):
    """Everything about one seed. ``texts`` are its artifacts, name -> text; ``calls`` model calls and their tokens."""

    why: Why
    title: str
    texts: dict[str, str]
    e0: tuple[tuple[str, str, int], ...]
    matrix: Matrix | None
    edits: tuple[Edit, ...]
    rejections: tuple[tuple[int, str, str], ...]
    calls: tuple[tuple[str, int, int, int, float | None], ...]
    remarks: tuple[str, ...]


def story(key: str, settings: Settings, ledger: Ledger, store: ArtifactStore) -> Story:
    """Raises ConfigError for an id that is none, or that begins several."""
    told = why(key, settings, ledger, store)
    reader = _Reader(told.id, settings, ledger, store)
    certificate = reader.value(Certificate, "certificate")
    task = (certificate and certificate.task) or reader.value(Task, "task") or reader.value(Task, "first_validation")
    draft = task.draft if task else reader.value(Draft, "task_draft")
    environment = task.environment if task else reader.value(Environment, "environment")
    return Story(
        why=told,
        title=task.title if task else "",
        texts={name: text[:SHOWN] for name, text in _texts(draft, environment).items()},
        e0=_files(environment),
        matrix=_matrix(draft, task, certificate, ledger) if draft else None,
        edits=tuple(reader.edits()),
        rejections=_rejections(task),
        calls=tuple(_calls(ledger.find(ModelCallFact, subject=told.id))),
        remarks=told.remarks,
    )


class _Reader:
    def __init__(self, key: str, settings: Settings, ledger: Ledger, store: ArtifactStore) -> None:
        self._key, self._ledger, self._store = key, ledger, store
        self._stages = {stage.name: stage for stage in seed_stages(settings)}
        self._memo = Memo()

    def value(self, kind: type[V], stage: str) -> V | None:
        result = current(self._stages[stage], [self._key], self._ledger, self._memo).get(self._key)
        if result is None or result.output is None or not self._store.has(result.output):
            return None
        return kind.model_validate_json(self._store.get(result.output))

    def edits(self) -> Iterable[Edit]:
        for fact in self._ledger.find(AttemptFact, key=self._key):
            if fact.kind != "repair" or not fact.artifact or fact.stage not in ("task", "certificate"):
                continue
            try:
                reply = TaskRepairReply.model_validate_json(self._store.get(fact.artifact))
            except (LedgerError, ValueError):  # evicted, or of another kind
                continue
            for edit in reply.edits:
                yield Edit(round=fact.round, component=reply.component, **edit.model_dump())
            for check in reply.put_checks:
                yield Edit(round=fact.round, component=reply.component, target=check.id, find="", replace=check.body)


def _texts(draft: Draft | None, environment: Environment | None) -> dict[str, str]:
    found = dict[str, str]()
    if environment is not None:
        recipe = environment.recipe
        found |= {f"environment: {file.path}": file.content for file in recipe.files if file.content}
        if recipe.generator:
            found["environment: generator"] = recipe.generator
    if draft is not None:
        found["instruction"] = markdown(draft.instruction)
        found["solution"] = script(draft.solution.solve_sh)
        found["verifier"] = checks_module(draft.verifier)
    return found


def _files(environment: Environment | None) -> tuple[tuple[str, str, int], ...]:
    e0 = environment.e0 if environment else None
    return tuple((file.path, file.type, file.size) for file in e0.files) if e0 else ()


def _matrix(draft: Draft, task: Task | None, certificate: Certificate | None, ledger: Ledger) -> Matrix:
    columns = dict[str, dict[str, str]]()
    last = task.validations[-1] if task and task.validations else None
    for name, trial in (("baseline", last.baseline), ("oracle", last.oracle)) if last else ():
        if trial is not None:
            columns[name] = {check.id: check.status for check in trial.checks}
    for fact in ledger.find(TrialFact, stage="rollouts", key=draft.seed):
        columns[f"attempt {fact.repeat}"] = _statuses(fact, ledger)
    kills = certificate.kills.kills if certificate else {}
    rows = [
        (
            check.id,
            check.rid,
            check.title,
            len(kills.get(check.id, ())),
            tuple(column.get(check.id, "") for column in columns.values()),
        )
        for check in draft.verifier.checks
    ]
    return Matrix(columns=tuple(columns), rows=tuple(rows))


def _statuses(fact: TrialFact, ledger: Ledger) -> dict[str, str]:
    return {check.check: check.status for check in ledger.find(CheckFact, trial=fact.fact_id)}


def _rejections(task: Task | None) -> tuple[tuple[int, str, str], ...]:
    found = task.validations if task else ()
    return tuple((v.round, str(v.rejection.reason), v.rejection.message) for v in found if v.rejection)


def _calls(facts: Iterable[ModelCallFact]) -> Iterable[tuple[str, int, int, int, float | None]]:
    by_call = dict[str, list[ModelCallFact]]()
    for fact in facts:
        by_call.setdefault(fact.call, []).append(fact)
    for call, made in by_call.items():
        costs: list[Any] = [fact.cost for fact in made]
        total = None if None in costs else float(sum(costs))
        yield (
            call,
            len(made),
            sum(fact.prompt_tokens for fact in made),
            sum(fact.completion_tokens for fact in made),
            total,
        )
