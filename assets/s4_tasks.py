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
    kinds=["openai"],
)
def task_draft(
    context: dg.AssetExecutionContext,
    settings: dg.ResourceParam[Settings],
    ledger: dg.ResourceParam[Ledger],
    store: dg.ResourceParam[ArtifactStore],
    llm: dg.ResourceParam[LLM],
    sandbox: dg.ResourceParam[Sandbox],
) -> Iterator[dg.Output[None]]:
    """Instruction, solution and verifier, all written against the same e0, in the order that is set.

    Paper, section 3.4. Nothing is run here: what is wrong with a draft shows in `first_validation`.
    """
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
    kinds=["docker"],
)
def first_validation(
    context: dg.AssetExecutionContext,
    settings: dg.ResourceParam[Settings],
    ledger: dg.ResourceParam[Ledger],
    store: dg.ResourceParam[ArtifactStore],
    sandbox: dg.ResourceParam[Sandbox],
) -> Iterator[dg.Output[None]]:
    """The draft executed once: the verifier must refuse e0 and accept what the solution makes of it.

    Paper, Table 5: entering validation. A draft that fails here is not rejected: `task` repairs it.
    """
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
    kinds=["openai", "docker"],
)
def task(
    context: dg.AssetExecutionContext,
    settings: dg.ResourceParam[Settings],
    ledger: dg.ResourceParam[Ledger],
    store: dg.ResourceParam[ArtifactStore],
    llm: dg.ResourceParam[LLM],
    sandbox: dg.ResourceParam[Sandbox],
) -> Iterator[dg.Output[None]]:
    """The validated task: only the blamed component is repaired, and everything is validated again.

    Paper, section 3.5 and Table 8: at most five repairs. Rejected where they do not help, or the task is infeasible.
    """
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
    kinds=["docker", "openai"],
)
def certificate(
    context: dg.AssetExecutionContext,
    settings: dg.ResourceParam[Settings],
    ledger: dg.ResourceParam[Ledger],
    store: dg.ResourceParam[ArtifactStore],
    llm: dg.ResourceParam[LLM],
    sandbox: dg.ResourceParam[Sandbox],
) -> Iterator[dg.Output[None]]:
    """What was shown about a validated task by repeated execution, with repairs of what was found, and its package.

    It tries to show the task wrong, cheapest probe first. FACET_CERTIFICATE says how far it goes.
    """
    stage = seed_stages(settings).certificate
    compute = pipeline.certificate(settings, ledger=ledger, store=store, llm=llm, sandbox=sandbox)
    # Where it asks models, it waits for them most of the time: the sandbox has slots of its own.
    links, workers = seed_links(ledger, "certificate"), settings.certificate_workers
    yield from fan_out(
        context, stage, compute, ledger=ledger, store=store, workers=workers, links=links, llm=llm, sandbox=sandbox
    )
