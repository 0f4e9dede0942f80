"""Targeted repair: one component per round, edited on evidence, then everything validated again (paper, Table 8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from facet_dagster.domain.environment import Environment, FileEdit
from facet_dagster.domain.facts import AttemptFact, Fact
from facet_dagster.domain.outcome import POLICY, Component, Reason, Rejection, reject
from facet_dagster.domain.scenario import Scenario
from facet_dagster.domain.task import Draft, RepairRound, Task, TaskRepairReply
from facet_dagster.errors import InvariantError, MalformedReply
from facet_dagster.funnel import Outcome
from facet_dagster.ports import LLM, ArtifactStore, Sandbox
from facet_dagster.stages.task.draft import built_image, e0_digest, keep, shared_variables
from facet_dagster.stages.task.edits import NO_EDITS, UNCHANGED, apply_edits, changed_targets, file_edits
from facet_dagster.stages.task.evidence import artifacts, evidence, history_entry, recipe_view
from facet_dagster.stages.task.justify import unjustified
from facet_dagster.stages.task.lint import lint_on
from facet_dagster.stages.task.package import TaskLimits
from facet_dagster.stages.task.validate import validate

STAGE = "task"
FREE = "This answer is not counted."
Rebuild = Callable[[Environment, tuple[FileEdit, ...]], Environment]


@dataclass
class _State:
    """What the rounds change. ``environment`` is the one in force."""

    task: Task
    environment: Environment
    store: ArtifactStore | None = None
    facts: list[Fact] = field(default_factory=list)

    @property
    def draft(self) -> Draft:
        return self.task.draft

    @property
    def rejection(self) -> Rejection:
        found = self.task.validations[-1].rejection if self.task.validations else None
        if found is None:
            raise InvariantError(f"Task {self.task.seed} needs no repair")
        return found


def finish(
    task: Task,
    environment: Environment,
    scenario: Scenario,
    *,
    llm: LLM,
    sandbox: Sandbox,
    trial_seconds: float,
    rounds: int,
    rebuild: Rebuild | None = None,
    store: ArtifactStore | None = None,
) -> Outcome:
    """Value Task: valid within ``rounds`` repairs, or rejected with everything that was tried.

    ``rebuild`` builds and captures the environment anew after edits of its recipe; without it the
    environment cannot be repaired. ``store`` keeps each reply. A round is spent by every reply, also by
    one that is refused; only for edits that change nothing each round has one more try.
    Infrastructure trouble raises its PortError and spends nothing. Numbers: repairs, checks.
    """
    if task.valid:
        return _outcome(_State(task, environment), None)
    state = _State(task, environment, store)
    for number in range(len(task.repairs) + 1, rounds + 1):
        if not POLICY[state.rejection.reason].repairable:
            break
        reply, result = _tried(state, scenario, llm, number, rebuild)
        if isinstance(reply, TaskRepairReply) and reply.infeasible:
            _record(state, number, reply, "infeasible")
            return _outcome(state, _infeasible(reply, state.rejection))
        if not result:
            result = _revalidate(state, scenario, sandbox, TaskLimits.of(trial_seconds), number)
        _record(state, number, reply, result)
        if state.task.valid:
            return _outcome(state, None)
    spent = POLICY[state.rejection.reason].repairable
    return _outcome(state, _exhausted(state, rounds) if spent else state.rejection)


def _tried(
    state: _State, scenario: Scenario, llm: LLM, number: int, rebuild: Rebuild | None
) -> tuple[TaskRepairReply | str, str]:
    """A reply, and why its edits are refused, if they are. One that changes nothing is asked for once more."""
    reply = _ask(state, scenario, llm, number)
    if isinstance(reply, str) or reply.infeasible:
        return reply, "" if isinstance(reply, TaskRepairReply) else reply
    result = _edit(state, reply, scenario, rebuild)
    if result not in (UNCHANGED, NO_EDITS):
        return reply, result
    state.facts.append(_fact(state, number, Component(reply.component), f"{result} {FREE}", reply))
    again = _ask(state, scenario, llm, number, _round(number, state, reply, f"{result} {FREE}"))
    if isinstance(again, str) or again.infeasible:
        return again, "" if isinstance(again, TaskRepairReply) else again
    return again, _edit(state, again, scenario, rebuild)


def _ask(state: _State, scenario: Scenario, llm: LLM, number: int, *idle: RepairRound) -> TaskRepairReply | str:
    """``idle`` is an answer of this round that changed nothing."""
    variables = {
        **shared_variables(scenario, state.environment),
        "draft": artifacts(state.draft),
        "recipe": recipe_view(state.environment),
        "evidence": evidence(state.task.validations[-1]),
        "history": [history_entry(item) for item in (*state.task.repairs, *idle)],
    }
    try:
        return llm.ask("repair_task", variables, TaskRepairReply, subject=state.task.seed, attempt=number)
    except MalformedReply as error:
        return f"The reply did not fit its schema: {error.problem[:300]}"


def _edit(state: _State, reply: TaskRepairReply, scenario: Scenario, rebuild: Rebuild | None) -> str:
    """Put the reply's edits in force; a sentence when they are refused and nothing changed."""
    if Component(reply.component) is Component.ENVIRONMENT:
        return _edit_environment(state, reply, rebuild)
    edited = apply_edits(state.draft, reply)
    if isinstance(edited, str):
        return edited
    old = {problem.text for problem in lint_on(state.draft, state.environment, scenario)}
    new = [found.text for found in lint_on(edited, state.environment, scenario) if found.text not in old]
    if new:
        return f"The edit breaks a rule: {new[0]}"
    unfounded = unjustified(state.draft, edited, reply.quotes, state.environment)
    if unfounded:
        return unfounded
    state.task = state.task.model_copy(update={"draft": edited})
    return ""


def _edit_environment(state: _State, reply: TaskRepairReply, rebuild: Rebuild | None) -> str:
    edits = file_edits(reply)
    if isinstance(edits, str):
        return edits
    if not reply.put_services and all(edit.find == edit.replace for edit in edits):
        return UNCHANGED
    if rebuild is None:
        return "The environment cannot be edited in this run."
    built = rebuild(_with_services(state.environment, reply), edits)
    last = built.attempts[-1] if built.attempts else None
    if built.image is None or built.e0 is None:
        why = "; ".join(last.problems) or last.log_tail[-600:] if last else "nothing was built"
        return f"The environment does not build with these edits: {why}"
    if built.recipe == state.environment.recipe:
        return UNCHANGED
    state.environment = built
    draft = state.draft.model_copy(update={"image": built_image(built), "e0_digest": e0_digest(built)})
    state.task = state.task.model_copy(update={"draft": draft, "environment": built})
    return ""


def _with_services(environment: Environment, reply: TaskRepairReply) -> Environment:
    """The environment, not yet built, with the reply's versions of services that it has."""
    put = {service.name: service for service in reply.put_services}
    services = tuple(put.get(service.name, service) for service in environment.recipe.services)
    return environment.model_copy(update={"recipe": environment.recipe.model_copy(update={"services": services})})


def _revalidate(state: _State, scenario: Scenario, sandbox: Sandbox, limits: TaskLimits, number: int) -> str:
    draft = state.draft.model_copy(update={"round": number})
    validation, facts = validate(
        draft,
        state.environment,
        scenario,
        sandbox=sandbox,
        limits=limits,
        stage=STAGE,
        known=state.task.known,
        store=state.store,
    )
    state.facts += facts
    state.task = state.task.model_copy(update={"draft": draft, "validations": (*state.task.validations, validation)})
    rejection = validation.rejection
    return f"{rejection.reason}: {rejection.message}" if rejection else "valid"


def _record(state: _State, number: int, reply: TaskRepairReply | str, result: str) -> None:
    """One RepairRound and one AttemptFact for every round."""
    done = _round(number, state, reply, result)
    state.task = state.task.model_copy(update={"repairs": (*state.task.repairs, done)})
    state.facts.append(_fact(state, number, done.component, result, reply))


def _round(number: int, state: _State, reply: TaskRepairReply | str, result: str) -> RepairRound:
    if isinstance(reply, str):
        return RepairRound(
            round=number, component=state.rejection.component, evidence="", changed=(), result=result[:1000]
        )
    return RepairRound(
        round=number,
        component=Component(reply.component),
        evidence=reply.evidence[:2000],
        changed=changed_targets(reply),
        result=result[:1000],
    )


def _fact(state: _State, number: int, component: Component, summary: str, reply: TaskRepairReply | str) -> AttemptFact:
    return AttemptFact(
        stage=STAGE,
        key=state.task.seed,
        kind="repair",
        round=number,
        ok=state.task.valid,
        component=str(component),
        summary=summary[:1000],
        artifact=None if isinstance(reply, str) else keep(reply, state.store),
    )


def _infeasible(reply: TaskRepairReply, last: Rejection) -> Rejection:
    return reject(
        Reason.TASK_INFEASIBLE,
        "No bounded edit can make the task valid, says the repair.",
        component=Component(reply.component),
        said=reply.evidence[:2000],
        last_reason=str(last.reason),
    )


def _exhausted(state: _State, rounds: int) -> Rejection:
    """Blames the component that the last round blamed: the classifier has spoken since the rules guessed."""
    last, repairs = state.rejection, state.task.repairs
    # A round that made the task valid says nothing of what a certificate found afterwards.
    spoken = bool(repairs) and repairs[-1].result != "valid"
    return reject(
        Reason.TASK_REPAIR_EXHAUSTED,
        f"Not valid after {rounds} repair rounds. Last: {last.message}",
        component=repairs[-1].component if spoken else last.component,
        last_reason=str(last.reason),
        last=dict(last.evidence),
    )


def _outcome(state: _State, rejection: Rejection | None) -> Outcome:
    numbers: Mapping[str, float] = {
        "repairs": len(state.task.repairs),
        "checks": len(state.draft.verifier.checks),
    }
    return Outcome(value=state.task, rejection=rejection, numbers=numbers, facts=tuple(state.facts))
