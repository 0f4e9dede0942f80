"""Stage 5: agents on certified tasks, and which of their trajectories may be trained on."""

from collections.abc import Iterator

import dagster as dg

from assets._dagster import fan_out, stage_asset
from assets.links import seed_links
from assets.partitions import SEEDS
from facet_dagster.pipeline import rollouts as pipeline
from facet_dagster.ports import ArtifactStore, Harness, Ledger, TokenCounter
from facet_dagster.settings import Settings
from facet_dagster.stages import rollout


@stage_asset(
    "rollouts",
    deps=["certificate"],
    group="s5_trajectories",
    version=pipeline.VERSION,
    partitions=SEEDS,
    pool="docker",
    batch=508,
    kinds=["docker", "openai"],
)
def rollouts(
    context: dg.AssetExecutionContext,
    settings: dg.ResourceParam[Settings],
    ledger: dg.ResourceParam[Ledger],
    store: dg.ResourceParam[ArtifactStore],
    harness: dg.ResourceParam[Harness],
    tokens: dg.ResourceParam[TokenCounter],
) -> Iterator[dg.Output[None]]:
    """Attempts of an agent with the teacher on the certified task, run by Harbor and judged check by check.

    Paper, section 4. Needs FACET_TEACHER and the Harbor tool; a task that no agent solves is no rejected task.
    """
    stage = pipeline.rollout_stages(settings, tokens.name).rollouts
    compute = pipeline.rollouts(settings, ledger=ledger, store=store, harness=harness)
    links = seed_links(ledger, "rollouts")
    yield from fan_out(
        context, stage, compute, ledger=ledger, store=store, workers=pipeline.WORKERS, links=links, harness=harness
    )


@stage_asset(
    "trajectories",
    deps=["rollouts"],
    group="s5_trajectories",
    version=rollout.VERSION,
    partitions=SEEDS,
    pool=None,
    batch=509,
    kinds=["python"],
)
def trajectories(
    context: dg.AssetExecutionContext,
    settings: dg.ResourceParam[Settings],
    ledger: dg.ResourceParam[Ledger],
    store: dg.ResourceParam[ArtifactStore],
    tokens: dg.ResourceParam[TokenCounter],
) -> Iterator[dg.Output[None]]:
    """Which attempts may be trained on: solved, whole, short enough, and honest.

    Paper, Table 9: at most 32,768 tokens. Rejected attempts stay as near misses.
    """
    stage = pipeline.rollout_stages(settings, tokens.name).trajectories
    compute = pipeline.trajectories(settings, ledger=ledger, store=store, tokens=tokens)
    links = seed_links(ledger, "trajectories")
    yield from fan_out(context, stage, compute, ledger=ledger, store=store, workers=settings.workers, links=links)
