"""Stage 1: from collected SKILL.md files to clean, classified, searchable skills with scenario hypotheses."""

from collections.abc import Iterator
from functools import partial

import dagster as dg

from assets._dagster import fan_out, stage_asset
from assets.partitions import SKILL_BUCKETS
from assets.skill_checks import NO_DUPLICATE_ID, NO_ORPHAN, SURVIVAL, check_index, check_survival, run_summary
from facet_dagster.pipeline import skills as pipeline
from facet_dagster.pipeline.graph import skill_stages
from facet_dagster.ports import LLM, ArtifactStore, Embedder, Ledger, VectorStore
from facet_dagster.settings import Settings
from facet_dagster.stages import curate, hypothesise, index


@stage_asset(
    "skills",
    deps=[],
    group="s1_skills",
    version=curate.VERSION,
    partitions=SKILL_BUCKETS,
    pool="embed",
    batch=256,
    kinds=["python", "postgres"],
    checks=[SURVIVAL],
)
def skills(
    context: dg.AssetExecutionContext,
    settings: dg.ResourceParam[Settings],
    ledger: dg.ResourceParam[Ledger],
    store: dg.ResourceParam[ArtifactStore],
    embedder: dg.ResourceParam[Embedder],
) -> Iterator[dg.Output[None]]:
    """Collected skills, parsed, cleaned, licensed, deduplicated and classified; each drop has a reason.

    A rejected skill stands in its bucket with the rule that it broke: `facet why ID` tells its story.
    """
    compute = pipeline.skills(settings, ledger=ledger, store=store, embedder=embedder)
    stage, whole = skill_stages(settings, ledger).skills, partial(check_survival, settings, ledger)
    ran = partial(fan_out, ledger=ledger, store=store, workers=settings.workers, summary=run_summary, whole=whole)
    yield from ran(context, stage, compute)


@stage_asset(
    "skill_index",
    deps=["skills"],
    group="s1_skills",
    version=index.VERSION,
    partitions=SKILL_BUCKETS,
    pool="embed",
    batch=257,
    kinds=["qdrant", "huggingface"],
    checks=[NO_ORPHAN, NO_DUPLICATE_ID],
)
def skill_index(
    context: dg.AssetExecutionContext,
    settings: dg.ResourceParam[Settings],
    ledger: dg.ResourceParam[Ledger],
    store: dg.ResourceParam[ArtifactStore],
    embedder: dg.ResourceParam[Embedder],
    vectors: dg.ResourceParam[VectorStore],
) -> Iterator[dg.Output[None]]:
    """Vectors of the kept skills in the vector store.

    MiniLM embeds each kept skill once; the index is a Qdrant collection, or the embedded shard.
    """
    stage = skill_stages(settings, ledger).skill_index
    compute = pipeline.skill_index(settings, ledger=ledger, store=store, embedder=embedder, vectors=vectors)
    whole = partial(check_index, settings, ledger, store, vectors)
    yield from fan_out(context, stage, compute, ledger=ledger, store=store, workers=1, whole=whole)


@stage_asset(
    "scenario_hypotheses",
    deps=["skills"],
    group="s1_skills",
    version=hypothesise.VERSION,
    partitions=SKILL_BUCKETS,
    pool="llm",
    batch=258,
    kinds=["openai"],
)
def scenario_hypotheses(
    context: dg.AssetExecutionContext,
    settings: dg.ResourceParam[Settings],
    ledger: dg.ResourceParam[Ledger],
    store: dg.ResourceParam[ArtifactStore],
    llm: dg.ResourceParam[LLM],
) -> Iterator[dg.Output[None]]:
    """Terminal scenarios in which each skill would be used, and whether it is concrete enough.

    Paper, section 3.1. With FACET_HYPOTHESES=extract they are read out of the skill, and no model is asked.
    """
    stage = skill_stages(settings, ledger).scenario_hypotheses
    compute = pipeline.scenario_hypotheses(settings, ledger=ledger, store=store, llm=llm)
    yield from fan_out(context, stage, compute, ledger=ledger, store=store, workers=settings.llm_workers, llm=llm)
