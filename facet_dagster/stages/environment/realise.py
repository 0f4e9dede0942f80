"""Builds an environment, captures its initial state, and repairs it on evidence (paper, section 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facet_dagster.domain.environment import (
    E0,
    BuildAttempt,
    Environment,
    EnvironmentRepairReply,
    ManifestReply,
    Recipe,
    RecipeReply,
    shorten,
)
from facet_dagster.domain.facts import ArtifactFact, AttemptFact
from facet_dagster.domain.ids import digest, to_json
from facet_dagster.domain.outcome import Reason, Rejection, reject
from facet_dagster.domain.scenario import Scenario
from facet_dagster.domain.seed import Seed
from facet_dagster.errors import MalformedReply, SandboxError
from facet_dagster.funnel import Outcome
from facet_dagster.ports import LLM, ArtifactStore, BuildFailed, Sandbox
from facet_dagster.prompts import version
from facet_dagster.stages.environment.capture import capture
from facet_dagster.stages.environment.dockerfile import archive_is_away, build_context
from facet_dagster.stages.environment.edits import apply_repair, compose, plain_manifest
from facet_dagster.stages.environment.policy import policy_problems
from facet_dagster.stages.environment.promises import promise_problems
from facet_dagster.stages.environment.running import observe

FIRST_BUILD_VERSION = f"2-{version('manifest', 'environment')}"
ENVIRONMENT_VERSION = f"3-{version('repair_environment')}"
STANDIN_LABEL = "facet.standin"
LOG_TAIL = 4_000
SHOWN_FILE = 8_000
SHOWN_PROBLEMS = 12


def first_build(
    seed: Seed,
    scenario: Scenario,
    *,
    llm: LLM,
    sandbox: Sandbox,
    base_image: str,
    build_seconds: float,
    store: ArtifactStore | None = None,
) -> Outcome:
    """Manifest, files, one build. A build that fails is no rejection yet: ``realise`` repairs it.

    Value Environment with one attempt; number ``ok`` is 1 when the image was built. ``store`` keeps the recipe.
    """
    specification = scenario.specification()
    manifest = plain_manifest(llm.ask("manifest", {"specification": specification}, ManifestReply, subject=seed.key))
    reply = llm.ask(
        "environment", {"specification": specification, "manifest": manifest}, RecipeReply, subject=seed.key
    )
    base = sandbox.image(base_image)
    environment = Environment(
        seed=seed.key,
        manifest=manifest,
        recipe=compose(manifest, reply),
        attempts=(),
        base_image=base_image,
        standin=bool(base and base.labels.get(STANDIN_LABEL)),
    )
    attempt = _build(environment, environment.recipe, scenario, 0, sandbox=sandbox, build_seconds=build_seconds)
    return Outcome(
        value=environment.model_copy(update={"attempts": (attempt,)}),
        numbers={"ok": float(attempt.ok)},
        facts=(*_kept([environment.recipe], store), _fact("first_build", seed.key, attempt)),
    )


def realise(
    environment: Environment,
    scenario: Scenario,
    *,
    llm: LLM,
    sandbox: Sandbox,
    repairs: int,
    build_seconds: float,
    store: ArtifactStore | None = None,
) -> Outcome:
    """Capture e0 of the first build, or repair it in at most ``repairs`` rounds until e0 keeps every promise.

    Numbers: ``repairs`` used, ``files`` of e0, ``first_build_ok``. Rejected as ENVIRONMENT_REPAIR_EXHAUSTED,
    with the value kept. ``store`` keeps every recipe that was tried.
    """
    first_round = len(environment.attempts)
    current = environment
    if environment.attempts[-1].ok:
        # The image may be gone since; the build is content-addressed, so it costs nothing when it is not.
        earlier = environment.model_copy(update={"attempts": environment.attempts[:-1]})
        current = rebuild(earlier, environment.recipe, scenario, sandbox=sandbox, build_seconds=build_seconds)
        first_round -= 1
    recipes = [current.recipe]
    while not current.attempts[-1].ok and len(current.attempts) <= repairs:
        current = _repair(current, scenario, llm=llm, sandbox=sandbox, build_seconds=build_seconds)
        recipes.append(current.recipe)
    facts = tuple(_fact("environment", current.seed, attempt) for attempt in current.attempts[first_round:])
    files = sum(file.type == "file" for file in current.e0.files) if current.e0 else 0
    return Outcome(
        value=current,
        rejection=None if current.e0 else _exhausted(current),
        numbers={
            "repairs": len(current.attempts) - 1,
            "files": files,
            "first_build_ok": float(current.attempts[0].ok),
        },
        facts=(*_kept(recipes, store), *facts),
    )


def rebuild(
    environment: Environment, recipe: Recipe, scenario: Scenario, *, sandbox: Sandbox, build_seconds: float
) -> Environment:
    """The environment with ``recipe`` in force: checked, built and captured, one attempt longer.

    ``e0`` is None, and the last attempt says why, when the recipe breaks the policy, does not build, or
    does not keep the manifest's promises. Also serves repairs that a failed validation asks for.
    """
    number = len(environment.attempts)
    attempt = _build(environment, recipe, scenario, number, sandbox=sandbox, build_seconds=build_seconds)
    e0: E0 | None = None
    if attempt.image:
        e0 = capture(attempt.image, sandbox=sandbox, base_image=environment.base_image, rows=recipe.rows)
        broken = promise_problems(e0, environment.manifest, scenario.references.outputs, recipe.rows)
        log = ""
        if recipe.services and not broken:
            running, broken, log = observe(attempt.image, recipe.services, sandbox=sandbox, subject=environment.seed)
            e0 = e0.model_copy(update={"services": running})
        if broken:
            failed = {"failed_step": "initial state", "problems": tuple(broken), "log_tail": log}
            e0, attempt = None, attempt.model_copy(update=failed)
    return environment.model_copy(update={"recipe": recipe, "attempts": (*environment.attempts, attempt), "e0": e0})


def _build(
    environment: Environment,
    recipe: Recipe,
    scenario: Scenario,
    number: int,
    *,
    sandbox: Sandbox,
    build_seconds: float,
) -> BuildAttempt:
    attempt = BuildAttempt(round=number, recipe=digest(recipe))
    discriminators = [item.id for item in scenario.reconstruction.discriminators]
    problems = policy_problems(recipe, environment.manifest, scenario.references.outputs, discriminators)
    if problems:
        return attempt.model_copy(update={"failed_step": "policy", "problems": tuple(problems)})
    context = build_context(recipe, environment.manifest, environment.base_image)
    built = sandbox.build(context, subject=environment.seed, attempt=number, seconds=build_seconds)
    if isinstance(built, BuildFailed):
        if built.step == f"FROM {environment.base_image}":
            # Not the recipe's fault, and no repair could help.
            raise SandboxError(f"Base image {environment.base_image} cannot be used: {built.log_tail[-300:]}")
        if archive_is_away(built):
            raise SandboxError(f"Debian's archive cannot be reached: {built.log_tail[-300:]}", transient=True)
        return attempt.model_copy(
            update={
                "failed_step": built.step or "build",
                "exit_code": built.exit_code,
                "log_tail": built.log_tail[-LOG_TAIL:],
                "seconds": built.seconds,
            }
        )
    return attempt.model_copy(update={"image": built.image, "seconds": built.seconds})


def _repair(
    environment: Environment, scenario: Scenario, *, llm: LLM, sandbox: Sandbox, build_seconds: float
) -> Environment:
    last = environment.attempts[-1]
    variables = {
        "specification": scenario.specification(),
        "manifest": environment.manifest,
        "recipe": _shown(environment.recipe),
        "evidence": evidence(last),
    }
    try:
        reply = llm.ask("repair_environment", variables, EnvironmentRepairReply, subject=environment.seed)
        recipe, problems = apply_repair(environment.recipe, reply)
    except MalformedReply as error:
        recipe, problems = environment.recipe, [f"The repair did not fit its schema: {error.problem[:300]}"]
    if not problems:
        return rebuild(environment, recipe, scenario, sandbox=sandbox, build_seconds=build_seconds)
    # The cause is still there: the next round must see it beside what was wrong with these edits.
    failed = last.model_copy(
        update={"round": last.round + 1, "image": None, "problems": (*problems, *_causes(last)), "seconds": 0.0}
    )
    return environment.model_copy(update={"attempts": (*environment.attempts, failed)})


def _causes(attempt: BuildAttempt) -> tuple[str, ...]:
    return tuple(problem for problem in attempt.problems if not problem.startswith(("Edit of", "The repair ")))


def evidence(attempt: BuildAttempt) -> dict[str, Any]:
    """What a repair is told about a failed attempt."""
    return {
        "round": attempt.round,
        "failed_step": attempt.failed_step,
        "exit_code": attempt.exit_code,
        "problems": list(attempt.problems[:SHOWN_PROBLEMS]),
        "more_problems": max(0, len(attempt.problems) - SHOWN_PROBLEMS),
        "log_tail": attempt.log_tail,
    }


def _shown(recipe: Recipe) -> dict[str, Any]:
    data = recipe.model_dump(mode="json")
    for file in data["files"]:
        file["content"] = shorten(file["content"], SHOWN_FILE)
    return data


def _exhausted(environment: Environment) -> Rejection:
    last = environment.attempts[-1]
    cause = last.problems[0] if last.problems else f"the build failed at: {last.failed_step}"
    return reject(
        Reason.ENVIRONMENT_REPAIR_EXHAUSTED,
        f"No environment after {len(environment.attempts) - 1} repair rounds; last: {cause}",
        **evidence(last),
    )


def _kept(recipes: Sequence[Recipe], store: ArtifactStore | None) -> tuple[ArtifactFact, ...]:
    """Recipes as blobs; a blob's hash is the ``recipe`` of its attempt."""
    if store is None:
        return ()
    blobs = {blob: store.put(blob) for blob in dict.fromkeys(to_json(recipe).encode() for recipe in recipes)}
    return tuple(ArtifactFact(sha256=sha, kind="environment.recipe", size=len(blob)) for blob, sha in blobs.items())


def _fact(stage: str, key: str, attempt: BuildAttempt) -> AttemptFact:
    summary = "; ".join(attempt.problems[:3]) or attempt.failed_step or f"built {attempt.image}"
    return AttemptFact(
        stage=stage,
        key=key,
        kind="build",
        round=attempt.round,
        ok=attempt.ok,
        component="environment",
        summary=summary[:500],
        artifact=attempt.recipe,
    )
