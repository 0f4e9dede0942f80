"""Instruction, solution and verifier, all written on one e0, in one of several orders (paper, sections 3.3 and 3.4)."""

from __future__ import annotations

from typing import Any, Literal

from facet_dagster.domain.environment import WORKDIR, Environment
from facet_dagster.domain.ids import canonical, digest
from facet_dagster.domain.scenario import Scenario, Seed
from facet_dagster.domain.task import Draft
from facet_dagster.errors import InvariantError
from facet_dagster.funnel import Outcome
from facet_dagster.ports import LLM, ArtifactStore
from facet_dagster.stages.task.asking import STAGE, Asker, keep
from facet_dagster.stages.task.orders import Given, Refused, Strategy, forward
from facet_dagster.stages.task.render import rules_text

__all__ = ["STAGE", "built_image", "draft", "e0_digest", "keep", "rules_text", "shared_variables"]


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
) -> Outcome:
    """Value Draft. ``environment`` is built and captured; ``order`` and ``pipeline`` are recorded.

    What breaks a rule is asked for once more; what is then still wrong is left to the first validation, which
    says so. ``store`` keeps every reply, also those that were asked for anew. Raises MalformedReply for a first
    reply that does not fit.
    """
    given = Given(scenario, environment, shared_variables(scenario, environment))
    image = built_image(environment)
    written = write(Asker(llm, seed.key, store), given)
    if isinstance(written, Refused):
        return Outcome(rejection=written.rejection, facts=written.attempts)
    value = Draft(
        seed=seed.key,
        instruction=written.instruction,
        solution=written.solution,
        verifier=written.verifier,
        e0_digest=e0_digest(environment),
        image=image,
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
        "e0": environment.e0.view(leave_out=rules_file),
    }


def e0_digest(environment: Environment) -> str:
    """Digest of what the prompts show of e0, without what differs between machines."""
    if environment.e0 is None:
        raise InvariantError(f"Environment of seed {environment.seed} has no captured e0")
    return digest(canonical(environment.e0.view()))


def built_image(environment: Environment) -> str:
    if environment.image is None:
        raise InvariantError(f"Environment of seed {environment.seed} has no image")
    return environment.image
