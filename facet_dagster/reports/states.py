"""In which state was the container: what a person needs to see a task as its trial, or its failure, left it."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeVar

from pydantic import BaseModel

from facet_dagster.domain.environment import Environment, EnvironmentRepairReply
from facet_dagster.domain.facts import AttemptFact, TrialFact
from facet_dagster.domain.ids import digest
from facet_dagster.domain.outcome import Component, Value
from facet_dagster.domain.task import Draft, Task, TaskRepairReply, Validation
from facet_dagster.errors import ConfigError
from facet_dagster.funnel import Memo, Stage, current
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.ports import ArtifactStore, Ledger
from facet_dagster.reports.in_force import task_in_force
from facet_dagster.reports.why import resolve
from facet_dagster.settings import Settings
from facet_dagster.stages.environment import apply_repair
from facet_dagster.stages.task.edits import apply_edits, file_edits
from facet_dagster.stages.task.render import script
from facet_dagster.stages.task.validate import failing

V = TypeVar("V", bound=BaseModel)
StateName = Literal["e0", "oracle", "failed"]


class State(Value):
    """An environment and what ran in it: ``solve_sh`` is empty when nothing did. ``told`` is for people."""

    seed: str
    environment: Environment
    solve_sh: str = ""
    told: tuple[str, ...] = ()


class _Version(NamedTuple):
    draft: Draft
    environment: Environment


def state(ident: str, name: StateName, settings: Settings, ledger: Ledger, store: ArtifactStore) -> State:
    """The state ``name`` of a seed; ``ident`` may be any unambiguous prefix. Raises ConfigError when there is none."""
    kind, key = resolve(ident, ledger)
    if kind != "seed":
        raise ConfigError(f"{key} is a {kind}, and only seeds have containers: `facet seeds` lists them")
    return _Records(key, settings, ledger, store).state(name)


class _Records:
    """The current results of one seed."""

    def __init__(self, key: str, settings: Settings, ledger: Ledger, store: ArtifactStore) -> None:
        self._key, self._ledger, self._store = key, ledger, store
        self._graph = seed_stages(settings)
        self._memo = Memo()
        self.first = self._value(Task, self._graph.first_validation)
        self.task = task_in_force(key, self._graph, ledger, store, self._memo)

    def state(self, name: StateName) -> State:
        environment = self._environment()
        if name == "e0":
            return State(seed=self._key, environment=environment)
        if name == "failed":
            return self._failed()
        draft = self.task.draft if self.task else self._value(Draft, self._graph.task_draft)
        if draft is None:
            raise ConfigError(f"Seed {self._key} has no solution yet: `facet why {self._key}` tells how far it came")
        return State(seed=self._key, environment=environment, solve_sh=script(draft.solution.solve_sh))

    def _value(self, kind: type[V], stage: Stage) -> V | None:
        result = current(stage, [self._key], self._ledger, self._memo).get(self._key)
        if result is None or result.output is None:
            return None
        return kind.model_validate_json(self._store.get(result.output))

    def _environment(self) -> Environment:
        found = self.task.environment if self.task else self._value(Environment, self._graph.environment)
        if found is None or found.image is None:
            raise ConfigError(f"Seed {self._key} has no environment: `facet why {self._key}` tells how far it came")
        return found

    def _failed(self) -> State:
        validations = self.task.validations if self.task else ()
        failed = next((v for v in reversed(validations) if not v.valid), None)
        if failed is None:
            raise ConfigError(f"No validation of seed {self._key} failed: look at it with --state oracle")
        found = self._version(failed)
        ran = failed.oracle is not None  # otherwise rules or the baseline decided, and nothing touched /app
        return State(
            seed=self._key,
            environment=found.environment,
            solve_sh=script(found.draft.solution.solve_sh) if ran else "",
            told=_story(failed),
        )

    def _version(self, validation: Validation) -> _Version:
        """Draft and environment as ``validation`` saw them: the last ones, or the first ones with its edits."""
        assert self.task is not None
        assert self.first is not None
        if validation == self.task.validations[-1]:
            return _Version(self.task.draft, self.task.environment)
        found = _Version(self.first.draft, self.first.environment)
        reached = {v.round for v in self.task.validations}  # an edit that was refused led to no validation
        for repair in self.task.repairs:
            if repair.round in reached and repair.round <= validation.round:
                found = self._edited(found, repair.round, repair.result)
        return self._checked(found, validation.round)

    def _edited(self, before: _Version, number: int, result: str) -> _Version:
        reply = self._reply(number, result)
        if Component(reply.component) is Component.ENVIRONMENT:
            edits = file_edits(reply)
            assert not isinstance(edits, str), edits
            repair = EnvironmentRepairReply(diagnosis="", edits=list(edits))
            recipe, _ = apply_repair(before.environment.recipe, repair)
            built_anew = before.environment.model_copy(update={"recipe": recipe, "attempts": ()})
            return _Version(before.draft.model_copy(update={"round": number}), built_anew)
        draft = apply_edits(before.draft, reply)
        assert not isinstance(draft, str), draft
        return _Version(draft.model_copy(update={"round": number}), before.environment)

    def _reply(self, number: int, result: str) -> TaskRepairReply:
        """The repair of round ``number``; a stage that was computed anew has several, told apart by their result."""
        facts = self._ledger.find(AttemptFact, stage="task", key=self._key, round=number, summary=result)
        found = [fact.artifact for fact in facts if fact.artifact and fact.kind == "repair"]
        if not found or not self._store.has(found[-1]):
            raise ConfigError(f"The edit of repair round {number} of seed {self._key} is not in the artifact store")
        return TaskRepairReply.model_validate_json(self._store.get(found[-1]))

    def _checked(self, found: _Version, number: int) -> _Version:
        """Raises ConfigError when the trials of that round judged another draft than the one made here."""
        facts = self._ledger.find(TrialFact, key=self._key, round=number, repeat=0)
        judged = {fact.draft for fact in facts if fact.stage != "certificate"}
        if found.environment.attempts and judged and digest(found.draft) not in judged:
            raise ConfigError(f"The draft of round {number} of seed {self._key} cannot be made again from the ledger")
        return found


def _story(failed: Validation) -> tuple[str, ...]:
    """Why the validation failed, then each check that did not pass in its last trial."""
    assert failed.rejection is not None
    what = "The certificate" if failed.by_certificate else "Validation"
    lines = [f"{what} of round {failed.round} failed, {failed.rejection.reason}: {failed.rejection.message}"]
    trial = failed.oracle or failed.baseline
    if failed.oracle is None:
        lines.append("The solution did not run in it: /app is the initial state.")
    lines += [f"rule: {problem}" for problem in failed.rejection.evidence.get("problems", [])]
    if trial is not None:
        lines += [f"check {c['id']} ({c['requirement']}) {c['status']}: {c['log_tail']}" for c in failing(trial)]
    return tuple(lines)
