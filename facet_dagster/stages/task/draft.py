"""Instruction, then solution, then verifier, all written on one e0 (paper, section 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from facet_dagster.domain.environment import WORKDIR, Environment, shorten
from facet_dagster.domain.facts import AttemptFact
from facet_dagster.domain.ids import canonical, digest, to_json
from facet_dagster.domain.scenario import Scenario, Seed
from facet_dagster.domain.services import LOGS
from facet_dagster.domain.task import Draft, InstructionReply, SolutionReply, VerifierReply
from facet_dagster.errors import InvariantError, MalformedReply
from facet_dagster.funnel import Outcome
from facet_dagster.ports import LLM, ArtifactStore
from facet_dagster.stages.task.lint import Problem, lint_collect, lint_instruction, lint_solution, lint_verifier
from facet_dagster.stages.task.render import markdown, rules_text

STAGE = "task_draft"
SHOWN_SET_UP = 4_000
R = TypeVar("R", bound=BaseModel)


@dataclass(frozen=True)
class Written(Generic[R]):
    """A reply, the problems that it still has, and the attempts that led to it."""

    reply: R
    problems: tuple[Problem, ...]
    attempts: tuple[AttemptFact, ...]


def draft(
    seed: Seed, scenario: Scenario, environment: Environment, *, llm: LLM, store: ArtifactStore | None = None
) -> Outcome:
    """Value Draft. ``environment`` is built and captured.

    Each artifact that breaks a rule is asked for once more; what is then still wrong is left to the first
    validation, which says so. ``store`` keeps every reply, also those that were asked for anew. Raises
    MalformedReply for a first reply that does not fit.
    """
    shared = shared_variables(scenario, environment)
    ask = _Asker(llm, seed.key, store)
    rules_file = environment.recipe.rules_file
    instruction = ask(
        "instruction", InstructionReply, shared, lambda reply: lint_instruction(reply, scenario, rules_file)
    )
    text = {"instruction": markdown(instruction.reply)}
    solution = ask(
        "solution",
        SolutionReply,
        {**shared, **text},
        partial(lint_solution, services=bool(environment.recipe.services)),
    )
    verifier = ask(
        "verifier",
        VerifierReply,
        {**shared, **text, "outputs": instruction.reply.outputs, "steps": solution.reply.steps},
        lambda reply: (
            *lint_verifier(reply, scenario, instruction.reply),
            *lint_collect(
                reply, reply.collect, services=bool(environment.recipe.services), plans=environment.manifest.services
            ),
        ),
    )
    value = Draft(
        seed=seed.key,
        instruction=instruction.reply,
        solution=solution.reply,
        verifier=verifier.reply.model_copy(update={"collect": []}),
        e0_digest=e0_digest(environment),
        image=built_image(environment),
        collect=tuple(verifier.reply.collect),
    )
    attempts = (*instruction.attempts, *solution.attempts, *verifier.attempts)
    numbers = {
        "checks": len(value.verifier.checks),
        "regenerated": len(attempts) - 3,
        "problems": len((*instruction.problems, *solution.problems, *verifier.problems)),
    }
    return Outcome(value=value, numbers=numbers, facts=attempts)


def shared_variables(scenario: Scenario, environment: Environment) -> dict[str, Any]:
    """What the instruction, solution, verifier and repair prompts show first, and identically."""
    if environment.e0 is None:
        raise InvariantError(f"Environment of seed {environment.seed} has no captured e0")
    rules_file = f"{WORKDIR}/{environment.recipe.rules_file}"
    return {
        "scenario": scenario.specification(),
        "rules_file": rules_file,
        "rules": rules_text(environment),
        # The rules stand in the prompt already: the room goes to the data.
        "e0": {**environment.e0.view(leave_out=rules_file), **service_view(environment)},
    }


def service_view(environment: Environment) -> dict[str, Any]:
    """How each service is reached and what it was given at build; nothing in an environment without services."""
    plans = {plan.name: plan.model_dump(mode="json") for plan in environment.manifest.services}
    running = {seen.name: seen for seen in environment.e0.services} if environment.e0 else {}
    views = [
        {
            **plans.get(service.name, {}),
            **service.model_dump(mode="json", exclude={"seconds", "set_up"}),
            "set_up": shorten(service.set_up, SHOWN_SET_UP),
            "log": f"{LOGS}/{service.name}.log",
            "processes": list(running[service.name].processes) if service.name in running else [],
        }
        for service in environment.recipe.services
    ]
    return {"services": views} if views else {}


def e0_digest(environment: Environment) -> str:
    """Digest of what the prompts show of e0, without what differs between machines."""
    if environment.e0 is None:
        raise InvariantError(f"Environment of seed {environment.seed} has no captured e0")
    return digest(canonical(environment.e0.view()))


def built_image(environment: Environment) -> str:
    if environment.image is None:
        raise InvariantError(f"Environment of seed {environment.seed} has no image")
    return environment.image


@dataclass(frozen=True)
class _Asker:
    llm: LLM
    seed: str
    store: ArtifactStore | None

    def __call__(
        self, call: str, schema: type[R], variables: Mapping[str, Any], check: Callable[[R], tuple[Problem, ...]]
    ) -> Written[R]:
        first = self._once(call, schema, {**variables, "problems": [], "previous": None}, check, 0)
        if not first.problems:
            return first
        again = {
            **variables,
            # Their texts come from bash and Python, whose versions word them differently: not in the tape's key.
            "problems": [{"log_tail": problem.text} for problem in first.problems],
            "previous": first.reply.model_dump(mode="json"),
        }
        try:
            second = self._once(call, schema, again, check, 1)
        except MalformedReply as error:
            failed = self._fact(call, 1, ok=False, summary=f"malformed: {error.problem[:300]}")
            return Written(first.reply, first.problems, (*first.attempts, failed))
        better = second if len(second.problems) <= len(first.problems) else first
        return Written(better.reply, better.problems, (*first.attempts, *second.attempts))

    def _once(
        self,
        call: str,
        schema: type[R],
        variables: Mapping[str, Any],
        check: Callable[[R], tuple[Problem, ...]],
        attempt: int,
    ) -> Written[R]:
        reply = self.llm.ask(call, variables, schema, subject=self.seed, attempt=attempt)
        problems = check(reply)
        summary = " ".join(problem.text for problem in problems)[:1000]
        fact = self._fact(call, attempt, ok=not problems, summary=summary, artifact=keep(reply, self.store))
        return Written(reply, problems, (fact,))

    def _fact(self, call: str, attempt: int, *, ok: bool, summary: str, artifact: str | None = None) -> AttemptFact:
        return AttemptFact(
            stage=STAGE,
            key=self.seed,
            kind=call,
            round=attempt,
            ok=ok,
            component=call,
            summary=summary,
            artifact=artifact,
        )


def keep(value: BaseModel, store: ArtifactStore | None) -> str:
    """The digest of ``value``'s JSON, which is its address when there is a store."""
    return store.put(to_json(value).encode()) if store else digest(value)
