"""Instruction, solution and verifier, all written on one e0, in one of several orders (paper, sections 3.3 and 3.4)."""

from __future__ import annotations

from typing import Any, Literal

from facet_dagster.domain.environment import WORKDIR, Environment, shorten
from facet_dagster.domain.ids import canonical, digest
from facet_dagster.domain.scenario import Scenario
from facet_dagster.domain.seed import Seed
from facet_dagster.domain.services import LOGS
from facet_dagster.domain.task import Draft
from facet_dagster.errors import InvariantError
from facet_dagster.funnel import Outcome
from facet_dagster.ports import LLM, ArtifactStore
from facet_dagster.stages.task.asking import STAGE, Asker, keep
from facet_dagster.stages.task.orders import Given, Refusal, Refused, Strategy, forward
from facet_dagster.stages.task.render import rules_text

__all__ = ["STAGE", "built_image", "draft", "e0_digest", "keep", "rules_text", "shared_variables"]
SHOWN_SET_UP = 4_000


def draft(
    seed: Seed,
    scenario: Scenario,
    environment: Environment,
    *,
    llm: LLM,
    store: ArtifactStore | None = None,
    write: Strategy = forward,
    order: Literal["", "reverse", "joint"] = "",
    pipeline: Literal["", "direct", "recording"] = "",
    refusal: Refusal | None = None,
) -> Outcome:
    """Value Draft. ``environment`` is built and captured; ``order`` and ``pipeline`` are recorded.

    What breaks a rule is asked for once more; what is then still wrong is left to the first validation, which
    says so. ``refusal`` is asked about the instruction before anything else is written on it. ``store`` keeps every
    reply, also those that were asked for anew. Raises MalformedReply for a first reply that does not fit.
    """
    given = Given(scenario, environment, shared_variables(scenario, environment), refusal)
    image = built_image(environment)
    written = write(Asker(llm, seed.key, store), given)
    if isinstance(written, Refused):
        return Outcome(rejection=written.rejection, facts=written.attempts)
    value = Draft(
        seed=seed.key,
        instruction=written.instruction,
        solution=written.solution,
        verifier=written.verifier.model_copy(update={"collect": []}),
        e0_digest=e0_digest(environment),
        image=image,
        collect=tuple(written.verifier.collect),
        order=order,
        pipeline=pipeline,
    )
    numbers = {
        "checks": len(value.verifier.checks),
        "regenerated": sum(attempt.round > 0 for attempt in written.attempts),
        "problems": len(written.problems),
    }
    return Outcome(value=value, numbers=numbers, facts=written.attempts)


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
