"""Stages 2 to 4 over seeds, bound to ports: from a selected pair to a certified Harbor task."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from pydantic import BaseModel

from facet_dagster.domain.environment import BuildAttempt, Environment, EnvironmentRepairReply, FileEdit
from facet_dagster.domain.facts import SeedFact
from facet_dagster.domain.outcome import Reason
from facet_dagster.domain.scenario import Scenario
from facet_dagster.domain.seed import Seed
from facet_dagster.domain.skill import Skill
from facet_dagster.domain.task import Draft, Task
from facet_dagster.errors import ConfigError, InvariantError
from facet_dagster.funnel import Compute, Outcome, Stage, current
from facet_dagster.pipeline.benchmarks import screen
from facet_dagster.pipeline.graph import effort, seed_stages
from facet_dagster.pipeline.skills import kept_skills
from facet_dagster.ports import LLM, ArtifactStore, Ledger, Sandbox
from facet_dagster.settings import Settings
from facet_dagster.stages import environment as environments
from facet_dagster.stages import scenario as scenarios
from facet_dagster.stages import task as tasks
from facet_dagster.stages.brief import brief

V = TypeVar("V", bound=BaseModel)


def value(kind: type[V], stage: Stage, key: str, ledger: Ledger, store: ArtifactStore) -> V:
    """The current value of ``stage`` for ``key``. Raises InvariantError when the plan let a gap through."""
    result = current(stage, [key], ledger).get(key)
    if result is None or result.output is None:
        raise InvariantError(f"{stage.name} has no current value for {key}")
    return kind.model_validate_json(store.get(result.output))


def _seed(key: str, ledger: Ledger) -> Seed:
    facts = ledger.find(SeedFact, key=key)
    if not facts:
        raise ConfigError(f"Seed {key} is not in the ledger: seeds are minted by seed_selection")
    fact = facts[0]
    return Seed(
        key=key,
        candidate=fact.candidate,
        skills=(fact.first, fact.second),
        scenario=fact.scenario,
        families=(fact.families[0], fact.families[1]),
    )


def seed(*, ledger: Ledger) -> Compute:
    """Seed key -> Seed, as minted."""

    def compute(key: str) -> Outcome:
        found = _seed(key, ledger)
        return Outcome(found, parents=((found.candidate, "candidate"),))

    return compute


def scenario(settings: Settings, *, ledger: Ledger, store: ArtifactStore, llm: LLM) -> Compute:
    """Seed key -> Scenario: the five modules (paper, section 3.2), or the brief of a baseline.

    A seed whose sentence repeats a benchmark is refused before anything is asked.
    """
    kept, refusal = kept_skills(settings, ledger, store), screen(settings)

    def compute(key: str) -> Outcome:
        found = _seed(key, ledger)
        if refusal and (refused := refusal(Reason.SEED_CONTAMINATED, key, found.scenario)):
            return Outcome(rejection=refused)
        first, second = (_skill(kept, ident) for ident in found.skills)
        if settings.pipeline != "facet":
            return brief(found, first, second, llm=llm)
        return scenarios.reconstruct(found, first, second, llm=llm, store=store)

    return compute


def _skill(kept: Mapping[str, Skill], ident: str) -> Skill:
    if ident not in kept:
        raise ConfigError(f"Skill {ident} is no longer kept: its seed cannot be computed anew")
    return kept[ident]


def first_build(settings: Settings, *, ledger: Ledger, store: ArtifactStore, llm: LLM, sandbox: Sandbox) -> Compute:
    """Seed key -> Environment after exactly one build."""
    graph = seed_stages(settings)

    def compute(key: str) -> Outcome:
        return environments.first_build(
            _seed(key, ledger),
            value(Scenario, graph.scenario, key, ledger, store),
            llm=llm,
            sandbox=sandbox,
            base_image=settings.base_image,
            build_seconds=settings.build_seconds,
            store=store,
        )

    return compute


def environment(settings: Settings, *, ledger: Ledger, store: ArtifactStore, llm: LLM, sandbox: Sandbox) -> Compute:
    """Seed key -> Environment with e0, after at most ``environment_repairs`` repairs."""
    graph = seed_stages(settings)

    def compute(key: str) -> Outcome:
        return environments.realise(
            value(Environment, graph.first_build, key, ledger, store),
            value(Scenario, graph.scenario, key, ledger, store),
            llm=llm,
            sandbox=sandbox,
            repairs=settings.environment_repairs,
            build_seconds=settings.build_seconds,
            store=store,
        )

    return compute


def task_draft(settings: Settings, *, ledger: Ledger, store: ArtifactStore, llm: LLM, sandbox: Sandbox) -> Compute:
    """Seed key -> Draft: instruction, solution and verifier on one e0, as order and pipeline say.

    One whose instruction repeats a benchmark is refused as soon as the instruction is there.
    """
    graph, refusal = seed_stages(settings), screen(settings)

    def compute(key: str) -> Outcome:
        return tasks.draft(
            _seed(key, ledger),
            value(Scenario, graph.scenario, key, ledger, store),
            value(Environment, graph.environment, key, ledger, store),
            llm=llm,
            store=store,
            write=_strategy(settings, sandbox),
            order="" if settings.order == "forward" else settings.order,
            pipeline="" if settings.pipeline == "facet" else settings.pipeline,
            refusal=partial(refusal, Reason.TASK_CONTAMINATED, key) if refusal else None,
        )

    return compute


def _strategy(settings: Settings, sandbox: Sandbox) -> tasks.Strategy:
    if settings.pipeline == "recording":
        return tasks.Recording(sandbox, settings.trial_seconds)
    return tasks.ORDERS[settings.order]


def first_validation(settings: Settings, *, ledger: Ledger, store: ArtifactStore, sandbox: Sandbox) -> Compute:
    """Seed key -> Task after exactly one full validation."""
    graph = seed_stages(settings)

    def compute(key: str) -> Outcome:
        return tasks.first_validation(
            value(Draft, graph.task_draft, key, ledger, store),
            value(Environment, graph.environment, key, ledger, store),
            value(Scenario, graph.scenario, key, ledger, store),
            sandbox=sandbox,
            trial_seconds=settings.trial_seconds,
        )

    return compute


def task(settings: Settings, *, ledger: Ledger, store: ArtifactStore, llm: LLM, sandbox: Sandbox) -> Compute:
    """Seed key -> Task, validated, after at most ``repair_rounds``."""
    graph = seed_stages(settings)

    def compute(key: str) -> Outcome:
        scene = value(Scenario, graph.scenario, key, ledger, store)
        checked = value(Task, graph.first_validation, key, ledger, store)
        return tasks.finish(
            checked,
            checked.environment,
            scene,
            llm=llm,
            sandbox=sandbox,
            rounds=settings.repair_rounds,
            trial_seconds=settings.trial_seconds,
            rebuild=_rebuilder(scene, sandbox, settings.build_seconds),
            store=store,
        )

    return compute


def _rebuilder(scene: Scenario, sandbox: Sandbox, build_seconds: float) -> tasks.Rebuild:
    """What an environment repair of a task needs from the environment stage."""

    def rebuild(environment: Environment, edits: tuple[FileEdit, ...]) -> Environment:
        reply = EnvironmentRepairReply(diagnosis="asked for by a validation", edits=list(edits))
        # Without edits it is the services that changed.
        recipe, problems = environments.apply_repair(environment.recipe, reply) if edits else (environment.recipe, [])
        if problems:
            failed = BuildAttempt(
                round=len(environment.attempts), recipe="", failed_step="edit", problems=tuple(problems)
            )
            return environment.model_copy(update={"attempts": (*environment.attempts, failed)})
        return environments.rebuild(environment, recipe, scene, sandbox=sandbox, build_seconds=build_seconds)

    return rebuild


def certificate(settings: Settings, *, ledger: Ledger, store: ArtifactStore, llm: LLM, sandbox: Sandbox) -> Compute:
    """Seed key -> Certificate and the Harbor package, after at most what is left of ``task_repairs`` rounds."""
    graph = seed_stages(settings)
    kept = kept_skills(settings, ledger, store)

    def compute(key: str) -> Outcome:
        found, scene = _seed(key, ledger), value(Scenario, graph.scenario, key, ledger, store)
        return tasks.certify_and_repair(
            value(Task, graph.task, key, ledger, store),
            scene,
            [_skill(kept, ident) for ident in found.skills],
            sandbox=sandbox,
            store=store,
            level=settings.certificate,
            llm=llm,
            effort=effort(settings),
            trial_seconds=settings.trial_seconds,
            day=datetime.now(UTC).date(),
            rounds=settings.repair_rounds,
            rebuild=_rebuilder(scene, sandbox, settings.build_seconds),
        )

    return compute
