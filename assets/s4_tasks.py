"""Stage 4: instruction, solution and verifier on e0; validation by execution; targeted repair; certificate."""

from collections.abc import Iterator

import dagster as dg

from assets._dagster import fan_out, stage_asset
from assets.links import seed_links
from assets.partitions import SEEDS
from facet_dagster.pipeline import tasks as pipeline
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.ports import LLM, ArtifactStore, Ledger, Sandbox
from facet_dagster.settings import Settings
from facet_dagster.stages import task as tasks


@stage_asset(
    "task_draft",
    deps=["environment"],
    group="s4_tasks",
    version=tasks.DRAFT_VERSION,
    partitions=SEEDS,
    pool="llm",
    batch=504,
)
def task_draft(
    context: dg.AssetExecutionContext,
    settings: dg.ResourceParam[Settings],
    ledger: dg.ResourceParam[Ledger],
    store: dg.ResourceParam[ArtifactStore],
    llm: dg.ResourceParam[LLM],
    sandbox: dg.ResourceParam[Sandbox],
) -> Iterator[dg.Output[None]]:
    """Instruction, solution and verifier, all written against the same e0, in the order that is set."""
    stage = seed_stages(settings).task_draft
    compute = pipeline.task_draft(settings, ledger=ledger, store=store, llm=llm, sandbox=sandbox)
    links, workers = seed_links(ledger, "task_draft"), settings.llm_workers
    yield from fan_out(
        context, stage, compute, ledger=ledger, store=store, workers=workers, links=links, llm=llm, sandbox=sandbox
    )


@stage_asset(
    "first_validation",
    deps=["task_draft"],
    group="s4_tasks",
    version=tasks.VALIDATION_VERSION,
    partitions=SEEDS,
    pool="docker",
    batch=505,
)
def first_validation(
    context: dg.AssetExecutionContext,
    settings: dg.ResourceParam[Settings],
    ledger: dg.ResourceParam[Ledger],
    store: dg.ResourceParam[ArtifactStore],
    sandbox: dg.ResourceParam[Sandbox],
) -> Iterator[dg.Output[None]]:
    """The draft executed once: the verifier must refuse e0 and accept what the solution makes of it."""
    stage = seed_stages(settings).first_validation
    compute = pipeline.first_validation(settings, ledger=ledger, store=store, sandbox=sandbox)
    links, workers = seed_links(ledger, "first_validation"), settings.workers
    yield from fan_out(
        context, stage, compute, ledger=ledger, store=store, workers=workers, links=links, sandbox=sandbox
    )


@stage_asset(
    "task",
    deps=["first_validation"],
    group="s4_tasks",
    version=tasks.VERSION,
    partitions=SEEDS,
    pool="docker",
    batch=506,
)
def task(
    context: dg.AssetExecutionContext,
    settings: dg.ResourceParam[Settings],
    ledger: dg.ResourceParam[Ledger],
    store: dg.ResourceParam[ArtifactStore],
    llm: dg.ResourceParam[LLM],
    sandbox: dg.ResourceParam[Sandbox],
) -> Iterator[dg.Output[None]]:
    """The validated task: only the blamed component is repaired, and everything is validated again."""
    stage = seed_stages(settings).task
    compute = pipeline.task(settings, ledger=ledger, store=store, llm=llm, sandbox=sandbox)
    links, workers = seed_links(ledger, "task"), settings.llm_workers
    yield from fan_out(
        context, stage, compute, ledger=ledger, store=store, workers=workers, links=links, llm=llm, sandbox=sandbox
    )


@stage_asset(
    "certificate",
    deps=["task"],
    group="s4_tasks",
    version=tasks.CERTIFICATE_VERSION,
    partitions=SEEDS,
    pool="docker",
    batch=507,
)
def certificate(
    context: dg.AssetExecutionContext,
    settings: dg.ResourceParam[Settings],
    ledger: dg.ResourceParam[Ledger],
    store: dg.ResourceParam[ArtifactStore],
    llm: dg.ResourceParam[LLM],
    sandbox: dg.ResourceParam[Sandbox],
) -> Iterator[dg.Output[None]]:
    """What was shown about a validated task by repeated execution, with repairs of what was found, and its package."""
    stage = seed_stages(settings).certificate
    compute = pipeline.certificate(settings, ledger=ledger, store=store, llm=llm, sandbox=sandbox)
    # Where it asks models, it waits for them most of the time: the sandbox has slots of its own.
    links, workers = seed_links(ledger, "certificate"), settings.certificate_workers
    yield from fan_out(
        context, stage, compute, ledger=ledger, store=store, workers=workers, links=links, llm=llm, sandbox=sandbox
    )
