"""Targeted repair: one component per round, edited on evidence, then everything validated again (paper, Table 8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from facet_dagster.domain.environment import Environment, FileEdit
from facet_dagster.domain.facts import AttemptFact, Fact
from facet_dagster.domain.outcome import POLICY, Component, Reason, Rejection, reject
from facet_dagster.domain.scenario import Scenario
from facet_dagster.domain.task import Draft, RepairRound, Task, TaskRepairReply, Validation
from facet_dagster.errors import InvariantError, MalformedReply
from facet_dagster.funnel import Outcome
from facet_dagster.ports import LLM, ArtifactStore, Sandbox
from facet_dagster.stages.task.draft import built_image, e0_digest, keep, shared_variables
from facet_dagster.stages.task.edits import apply_edits, changed_targets, file_edits
from facet_dagster.stages.task.lint import lint
from facet_dagster.stages.task.package import TaskLimits
from facet_dagster.stages.task.validate import validate

STAGE = "task"
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
    one that is refused.
    Infrastructure trouble raises its PortError and spends nothing. Numbers: repairs, checks.
    """
    if task.valid:
        return _outcome(_State(task, environment), None)
    state = _State(task, environment, store)
    for number in range(len(task.repairs) + 1, rounds + 1):
        if not POLICY[state.rejection.reason].repairable:
            return _outcome(state, state.rejection)
        reply = _ask(state, scenario, llm, number)
        if isinstance(reply, TaskRepairReply) and reply.infeasible:
            _record(state, number, reply, "infeasible")
            return _outcome(state, _infeasible(reply, state.rejection))
        result = reply if isinstance(reply, str) else _edit(state, reply, scenario, rebuild)
        if not result:
            result = _revalidate(state, scenario, sandbox, TaskLimits.of(trial_seconds), number)
        _record(state, number, reply, result)
        if state.task.valid:
            return _outcome(state, None)
    return _outcome(state, _exhausted(state, rounds))


def _ask(state: _State, scenario: Scenario, llm: LLM, number: int) -> TaskRepairReply | str:
    variables = {
        **shared_variables(scenario, state.environment),
        "draft": artifacts(state.draft),
        "recipe": recipe_view(state.environment),
        "evidence": evidence(state.task.validations[-1]),
        "history": [history_entry(item) for item in state.task.repairs],
    }
    try:
        return llm.ask("repair_task", variables, TaskRepairReply, subject=state.task.seed, attempt=number)
    except MalformedReply as error:
        return f"The reply did not fit its schema: {error.problem[:300]}"


def artifacts(draft: Draft) -> dict[str, Any]:
    """The draft with the names by which edits address its parts."""
    return {
        "title": draft.instruction.title,
        "instruction": draft.instruction.intro,
        "sections": [
            {"target": f"section {n}", "rids": s.rids, "text": s.text} for n, s in enumerate(draft.instruction.sections)
        ],
        "outputs": draft.instruction.outputs,
        "solve.sh": draft.solution.solve_sh,
        "helpers": draft.verifier.helpers,
        "checks": [check.model_dump(mode="json") for check in draft.verifier.checks],
        **({"collect": [command.model_dump(mode="json") for command in draft.collect]} if draft.collect else {}),
    }


def recipe_view(environment: Environment) -> dict[str, Any]:
    """What an environment repair may edit: paths of literal files (their content stands in e0) and the generator."""
    services = environment.recipe.services
    return {
        "literal_files": [file.path for file in environment.recipe.files],
        "generator": environment.recipe.generator,
        **({"services": [service.model_dump(mode="json") for service in services]} if services else {}),
    }


def evidence(validation: Validation) -> dict[str, Any]:
    """Why the draft is not valid. Texts that may differ between machines stand under ``log_tail``."""
    rejection = validation.rejection
    if rejection is None:
        raise InvariantError("A valid task has no evidence of a defect")
    data = dict(rejection.evidence)
    problems = [{"log_tail": text} for text in data.pop("problems", [])]
    return {
        "reason": str(rejection.reason),
        "component_by_rule": str(rejection.component),
        "what_happened": {"log_tail": rejection.message},
        "rule_problems": problems,
        "program": {name: data.pop(name) for name in ("end", "exit_code", "log_tail") if name in data},
        "checks_not_passed": data.pop("checks", []),
        "checks_passed_at_start": data.pop("passed", []),
        "remarks": list(validation.remarks),
    }


def history_entry(item: RepairRound) -> dict[str, Any]:
    return {
        "round": item.round,
        "component": str(item.component),
        "evidence": item.evidence,
        "changed": list(item.changed),
        "result": {"log_tail": item.result},
    }


def _edit(state: _State, reply: TaskRepairReply, scenario: Scenario, rebuild: Rebuild | None) -> str:
    """Put the reply's edits in force; a sentence when they are refused and nothing changed."""
    if Component(reply.component) is Component.ENVIRONMENT:
        return _edit_environment(state, reply, rebuild)
    edited = apply_edits(state.draft, reply)
    if isinstance(edited, str):
        return edited
    rules_file = state.environment.recipe.rules_file
    services = bool(state.environment.recipe.services)
    old = {problem.text for problem in lint(state.draft, scenario, rules_file, services=services)}
    found = lint(edited, scenario, rules_file, services=services)
    new = [problem.text for problem in found if problem.text not in old]
    if new:
        return f"The edit breaks a rule: {new[0]}"
    state.task = state.task.model_copy(update={"draft": edited})
    return ""


def _edit_environment(state: _State, reply: TaskRepairReply, rebuild: Rebuild | None) -> str:
    edits = file_edits(reply)
    if isinstance(edits, str):
        return edits
    if rebuild is None:
        return "The environment cannot be edited in this run."
    built = rebuild(_with_services(state.environment, reply), edits)
    last = built.attempts[-1] if built.attempts else None
    if built.image is None or built.e0 is None:
        why = "; ".join(last.problems) or last.log_tail[-600:] if last else "nothing was built"
        return f"The environment does not build with these edits: {why}"
    if built.recipe == state.environment.recipe:
        return "The edits change nothing."
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
    validation, facts = validate(draft, state.environment, scenario, sandbox=sandbox, limits=limits, stage=STAGE)
    state.facts += facts
    state.task = state.task.model_copy(update={"draft": draft, "validations": (*state.task.validations, validation)})
    rejection = validation.rejection
    return f"{rejection.reason}: {rejection.message}" if rejection else "valid"


def _record(state: _State, number: int, reply: TaskRepairReply | str, result: str) -> None:
    """One RepairRound and one AttemptFact for every round."""
    component = state.rejection.component if isinstance(reply, str) else Component(reply.component)
    done = RepairRound(
        round=number,
        component=component,
        evidence="" if isinstance(reply, str) else reply.evidence[:2000],
        changed=() if isinstance(reply, str) else changed_targets(reply),
        result=result[:1000],
    )
    state.task = state.task.model_copy(update={"repairs": (*state.task.repairs, done)})
    state.facts.append(
        AttemptFact(
            stage=STAGE,
            key=state.task.seed,
            kind="repair",
            round=number,
            ok=state.task.valid,
            component=str(component),
            summary=result[:1000],
            artifact=None if isinstance(reply, str) else keep(reply, state.store),
        )
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
    return reject(
        Reason.TASK_REPAIR_EXHAUSTED,
        f"Not valid after {rounds} repair rounds. Last: {last.message}",
        component=repairs[-1].component if repairs else last.component,
        last_reason=str(last.reason),
        last=dict(last.evidence),
    )


def _outcome(state: _State, rejection: Rejection | None) -> Outcome:
    numbers: Mapping[str, float] = {
        "repairs": len(state.task.repairs),
        "checks": len(state.draft.verifier.checks),
    }
    return Outcome(value=state.task, rejection=rejection, numbers=numbers, facts=tuple(state.facts))
