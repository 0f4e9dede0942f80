"""Stage 2: from skills to seeds (pairs that a judge accepted) and their complete scenarios."""

from collections.abc import Iterator
from datetime import date
from typing import Any

import dagster as dg
from pydantic import Field

from assets._dagster import fan_out, owner_of, settle_one, stage_asset
from assets.links import seed_links
from assets.partitions import SEEDS, SKILL_BUCKETS
from facet_dagster.pipeline import selection
from facet_dagster.pipeline import skills as pairing
from facet_dagster.pipeline import tasks as pipeline
from facet_dagster.pipeline.graph import seed_stages, selection_stage, skill_stages
from facet_dagster.ports import LLM, ArtifactStore, Embedder, Ledger, VectorStore
from facet_dagster.settings import Settings
from facet_dagster.stages import pair, select
from facet_dagster.stages import scenario as scenarios


@stage_asset(
    "seed_candidates",
    deps=["skill_index", "scenario_hypotheses"],
    group="s2_seeds",
    version=pair.VERSION,
    partitions=SKILL_BUCKETS,
    pool="llm",
    batch=259,
    kinds=["openai", "qdrant"],
)
def seed_candidates(
    context: dg.AssetExecutionContext,
    settings: dg.ResourceParam[Settings],
    ledger: dg.ResourceParam[Ledger],
    store: dg.ResourceParam[ArtifactStore],
    llm: dg.ResourceParam[LLM],
    embedder: dg.ResourceParam[Embedder],
    vectors: dg.ResourceParam[VectorStore],
) -> Iterator[dg.Output[None]]:
    """Each skill's nearest partners as candidate pairs, and the judge's word on each.

    Paper, section 3.1. Refused pairs are kept with the reason of the judge; they never become partitions.
    """
    stage = skill_stages(settings, ledger).seed_candidates
    compute = pairing.seed_candidates(settings, ledger=ledger, store=store, llm=llm, embedder=embedder, vectors=vectors)
    yield from fan_out(context, stage, compute, ledger=ledger, store=store, workers=settings.llm_workers, llm=llm)


# A selection adds seeds and changes none, so no seed that was there becomes stale.
ONLY_ADDS = dg.DataVersion("only-adds")


class SelectionConfig(dg.Config):
    """Which batch of seeds is selected, and how large it shall be."""

    batch: str = Field(
        default="", description="Label of the batch that the new seeds belong to; empty: today's date as yymmdd."
    )
    count: int = Field(
        default=0, ge=0, description="Seeds that the batch shall hold when this is done; 0: as FACET_SEEDS says."
    )
    may_be_empty: bool = Field(default=False, description="A batch for which no pair is left is no failure.")


@dg.asset(
    deps=["seed_candidates"],
    group_name="s2_seeds",
    code_version=f"{pair.VERSION}-{select.VERSION}",
    owners=[owner_of("s2_seeds")],
    kinds={"openai", "postgres"},
)
def seed_selection(
    context: dg.AssetExecutionContext,
    config: SelectionConfig,
    settings: dg.ResourceParam[Settings],
    ledger: dg.ResourceParam[Ledger],
    store: dg.ResourceParam[ArtifactStore],
    llm: dg.ResourceParam[LLM],
    embedder: dg.ResourceParam[Embedder],
) -> dg.MaterializeResult[None]:
    """Accepted pairs chosen for a batch, balanced over task families, no pair twice: mints the seed partitions."""
    batch = config.batch or f"{date.today():%y%m%d}"  # noqa: DTZ011 - a local night
    count = config.count or settings.seeds
    compute = selection.seed_selection(
        settings, batch=batch, count=count, ledger=ledger, store=store, llm=llm, embedder=embedder
    )
    stage = selection_stage(settings, ledger, count)
    result = settle_one(context, stage, batch, compute, ledger=ledger, store=store)
    keys = pairing.batch_keys(ledger, batch, may_be_empty=config.may_be_empty)
    context.instance.add_dynamic_partitions("seed", keys)
    shown: dict[str, Any] = {**result.numbers, "batch": batch, "keys": keys, "cached": result.cached}
    return dg.MaterializeResult(metadata=shown, data_version=ONLY_ADDS)


@stage_asset(
    "seed",
    deps=["seed_selection"],
    group="s2_seeds",
    version="1",
    partitions=SEEDS,
    pool=None,
    batch=500,
    kinds=["postgres"],
)
def seed(
    context: dg.AssetExecutionContext,
    settings: dg.ResourceParam[Settings],
    ledger: dg.ResourceParam[Ledger],
    store: dg.ResourceParam[ArtifactStore],
) -> Iterator[dg.Output[None]]:
    """A selected pair of skills with its joint scenario: one partition for everything that follows.

    Paper, Table 5, first row. It reads the ledger, computes nothing, and is never stale because other seeds are added.
    """
    stage, compute = seed_stages(settings).seed, pipeline.seed(ledger=ledger)
    links = seed_links(ledger, "seed")
    yield from fan_out(context, stage, compute, ledger=ledger, store=store, workers=settings.workers, links=links)


@stage_asset(
    "scenario",
    deps=["seed"],
    group="s2_seeds",
    version=scenarios.VERSION,
    partitions=SEEDS,
    pool="llm",
    batch=501,
    kinds=["openai"],
)
def scenario(
    context: dg.AssetExecutionContext,
    settings: dg.ResourceParam[Settings],
    ledger: dg.ResourceParam[Ledger],
    store: dg.ResourceParam[ArtifactStore],
    llm: dg.ResourceParam[LLM],
) -> Iterator[dg.Output[None]]:
    """The complete scenario of a seed: five modules, five dimensions, solution and instruction reference.

    Paper, section 3.2. Rejected where the skills say too little, or the two references do not end in one state.
    """
    stage = seed_stages(settings).scenario
    compute = pipeline.scenario(settings, ledger=ledger, store=store, llm=llm)
    links, workers = seed_links(ledger, "scenario"), settings.llm_workers
    yield from fan_out(context, stage, compute, ledger=ledger, store=store, workers=workers, links=links, llm=llm)
