"""Stage 3: the container first. One build, then bounded repairs on evidence, then the captured state e0."""

from collections.abc import Iterator

import dagster as dg

from assets._dagster import fan_out, stage_asset
from assets.links import seed_links
from assets.partitions import SEEDS
from facet_dagster.pipeline import tasks as pipeline
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.ports import LLM, ArtifactStore, Ledger, Sandbox
from facet_dagster.settings import Settings
from facet_dagster.stages import environment as environments


@stage_asset(
    "first_build",
    deps=["scenario"],
    group="s3_environments",
    version=environments.FIRST_BUILD_VERSION,
    partitions=SEEDS,
    pool="docker",
    batch=502,
    kinds=["openai", "docker"],
)
def first_build(
    context: dg.AssetExecutionContext,
    settings: dg.ResourceParam[Settings],
    ledger: dg.ResourceParam[Ledger],
    store: dg.ResourceParam[ArtifactStore],
    llm: dg.ResourceParam[LLM],
    sandbox: dg.ResourceParam[Sandbox],
) -> Iterator[dg.Output[None]]:
    """Manifest, fixtures and Dockerfile of a scenario, built exactly once; the log is kept either way.

    Paper, Table 5: first-build logs. No model writes a Dockerfile: code renders it from the manifest.
    """
    stage = seed_stages(settings).first_build
    compute = pipeline.first_build(settings, ledger=ledger, store=store, llm=llm, sandbox=sandbox)
    links, workers = seed_links(ledger, "first_build"), settings.llm_workers
    yield from fan_out(
        context, stage, compute, ledger=ledger, store=store, workers=workers, links=links, llm=llm, sandbox=sandbox
    )


@stage_asset(
    "environment",
    deps=["first_build"],
    group="s3_environments",
    version=environments.ENVIRONMENT_VERSION,
    partitions=SEEDS,
    pool="docker",
    batch=503,
    kinds=["openai", "docker"],
)
def environment(
    context: dg.AssetExecutionContext,
    settings: dg.ResourceParam[Settings],
    ledger: dg.ResourceParam[Ledger],
    store: dg.ResourceParam[ArtifactStore],
    llm: dg.ResourceParam[LLM],
    sandbox: dg.ResourceParam[Sandbox],
) -> Iterator[dg.Output[None]]:
    """The built environment, repaired on evidence where the first build failed, and its captured state e0.

    Paper, section 3.3: at most three repairs. Rejected where no repair builds.
    """
    stage = seed_stages(settings).environment
    compute = pipeline.environment(settings, ledger=ledger, store=store, llm=llm, sandbox=sandbox)
    links, workers = seed_links(ledger, "environment"), settings.llm_workers
    yield from fan_out(
        context, stage, compute, ledger=ledger, store=store, workers=workers, links=links, llm=llm, sandbox=sandbox
    )
