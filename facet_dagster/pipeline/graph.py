"""Which stages there are, what they read, and under which code, prompts and settings a result stands."""

from __future__ import annotations

from typing import NamedTuple

from facet_dagster.domain.ids import bucket_keys
from facet_dagster.funnel import Stage, current
from facet_dagster.pipeline import benchmarks
from facet_dagster.pipeline.corpus import bucket_inputs, version_of
from facet_dagster.ports import Ledger
from facet_dagster.settings import Settings
from facet_dagster.stages import (
    brief,
    curate,
    environment,
    extract,
    hypothesise,
    index,
    pair,
    retrieve,
    scenario,
    select,
    task,
)


class SkillStages(NamedTuple):
    """Stages over the 256 buckets of skills."""

    skills: Stage
    skill_index: Stage
    scenario_hypotheses: Stage
    seed_candidates: Stage


class SeedStages(NamedTuple):
    """Stages over seeds, in order (paper, Table 5)."""

    seed: Stage
    scenario: Stage
    first_build: Stage
    environment: Stage
    task_draft: Stage
    first_validation: Stage
    task: Stage
    certificate: Stage


def skill_stages(settings: Settings, ledger: Ledger) -> SkillStages:
    """The bucket stages for the corpus as it is now.

    A new skill proposes partners of its own, old ones among them, so it leaves the candidates of other buckets alone.
    """
    parts = (version_of(settings),)
    skills = Stage("skills", curate.VERSION, (), parts, own=lambda: bucket_inputs(ledger))
    indexed = Stage("skill_index", index.VERSION, (skills,), (settings.embedder_dtype,))
    hypotheses = _hypotheses(settings, skills)
    proposing = (retrieve.VERSION,) if settings.candidates == "hypothesis" else ()
    proposed = (settings.neighbours, *proposing)
    candidates = Stage("seed_candidates", pair.VERSION, (indexed, hypotheses), proposed)
    return SkillStages(skills, indexed, hypotheses, candidates)


def _hypotheses(settings: Settings, skills: Stage) -> Stage:
    if settings.hypotheses == "extract":
        return Stage("scenario_hypotheses", extract.VERSION, (skills,), ("extract",))
    return Stage("scenario_hypotheses", hypothesise.VERSION, (skills,))


def seed_stages(settings: Settings) -> SeedStages:
    """The seed stages. Every stage names all whose values it reads, so that its input digest covers them.

    So results of all orders, pipelines and authors stand side by side, and none is computed twice.
    """
    author = (settings.author,) if settings.author else ()
    screened = benchmarks.parts(settings)
    seed = Stage("seed", "1")
    scenes = _scenario(settings, seed, (*author, *screened))
    base = (settings.base_image, settings.build_seconds, *author)
    told = (*scenes.under, f"base {settings.base_image}")
    first = Stage("first_build", environment.FIRST_BUILD_VERSION, (seed, scenes), base, under=told)
    repairs = (settings.environment_repairs, settings.build_seconds, *author)
    told = (*told, f"{settings.environment_repairs} environment repairs")
    built = Stage("environment", environment.ENVIRONMENT_VERSION, (first, scenes), repairs, under=told)
    told = (*told, *_written(settings))
    writing = (*_writing(settings), *author, *screened)
    draft = Stage("task_draft", task.DRAFT_VERSION, (built, scenes), writing, under=told)
    trials = (settings.trial_seconds,)
    checked = Stage("first_validation", task.VALIDATION_VERSION, (draft, built, scenes), trials, under=told)
    limits = (settings.trial_seconds, settings.build_seconds)
    told = (*told, f"{settings.repair_rounds} rounds")
    rounds = (settings.repair_rounds, *limits, *author)
    final = Stage("task", task.VERSION, (checked, built, scenes), rounds, under=told)
    told = (*told, f"certificate {settings.certificate}")
    parts = (settings.repair_rounds, *limits, *_tried(settings), *author)
    certificate = Stage("certificate", task.CERTIFICATE_VERSION, (final, scenes), parts, under=told)
    return SeedStages(seed, scenes, first, built, draft, checked, final, certificate)


def _scenario(settings: Settings, seed: Stage, author: tuple[object, ...]) -> Stage:
    """Both baselines start from one and the same brief."""
    told = tuple(f"author {name}" for name in author)
    if settings.pipeline == "facet":
        return Stage("scenario", scenario.VERSION, (seed,), author, under=told)
    return Stage("scenario", brief.VERSION, (seed,), ("brief", *author), under=(*told, "brief"))


def _written(settings: Settings) -> tuple[str, ...]:
    """``_writing`` for people."""
    order = () if settings.pipeline == "recording" else (f"order {settings.order}",)
    return (f"pipeline {settings.pipeline}", *order)


def _writing(settings: Settings) -> tuple[object, ...]:
    """What tells drafts of one environment apart."""
    if settings.pipeline == "recording":
        return ("recording", task.RECORDING_VERSION, settings.trial_seconds)
    joint = (task.JOINT_VERSION,) if settings.order == "joint" else ()
    return (settings.pipeline, settings.order, *joint)


def _tried(settings: Settings) -> tuple[object, ...]:
    """What of the settings, and of the prompts that they ask for, a certificate depends on."""
    level = settings.certificate
    examined = (task.EXAMINE_VERSION,) if level != "basic" else ()
    return (
        level,
        effort(settings),
        *examined,
        *((task.BLIND_VERSION, task.REBUILD_VERSION) if level == "strict" else ()),
    )


def effort(settings: Settings) -> task.Effort:
    return task.Effort(
        mutants=settings.certificate_mutants,
        equivalents=settings.certificate_equivalents,
        reseeds=settings.certificate_reseeds,
    )


def selection_stage(settings: Settings, ledger: Ledger, count: int) -> Stage:
    """``seed_selection`` for the candidates as they are now; its key is the batch."""
    candidates = current(skill_stages(settings, ledger).seed_candidates, bucket_keys(), ledger)
    rules = (settings.skill_share, settings.same_scenario, settings.selection_number)
    outputs = [(key, candidates[key].output) for key in sorted(candidates)]
    return Stage("seed_selection", f"{pair.VERSION}-{select.VERSION}", (), (count, outputs, *rules))
