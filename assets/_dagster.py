"""The only translator between the funnel's results and Dagster's events.

A run handles a range of partitions in one process; every partition gets its own materialization and
``accepted`` check as soon as it is settled, cached results included. A rejection is a materialized
verdict with a failed WARN check. Only infrastructure trouble fails the run, at its end.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import dagster as dg

from assets._events import Emitter
from assets._pulse import Pulse, end_cancelled
from assets.checks import accepted
from assets.links import Links, no_links
from assets.rejections import Neighbours
from assets.run_summary import stage_summary
from facet_dagster.adapters.process_owner import current_owner
from facet_dagster.domain.outcome import StageResult
from facet_dagster.funnel import Compute, Stage, plan, run_stage
from facet_dagster.ports import LLM, ArtifactStore, Harness, Ledger, Sandbox

OWNER_TAG = "facet/owner"
RUN_CONFIG = {
    "workers": dg.Field(
        int,
        default_value=0,
        description="Partitions in flight at once in this run. 0: as FACET_WORKERS says, or FACET_LLM_WORKERS in a"
        " stage that waits for a model. Containers have slots of their own: FACET_BUILD_SLOTS, FACET_TRIAL_SLOTS.",
    )
}
Summary = Callable[[Sequence[StageResult]], Mapping[str, dg.MetadataValue]]


def own(context: dg.OpExecutionContext | dg.AssetExecutionContext) -> None:
    """Write this process on its run, so that the run can be failed when the process is killed."""
    context.instance.add_run_tags(context.run.run_id, {OWNER_TAG: current_owner()})


def stage_asset(
    name: str,
    *,
    deps: Sequence[str],
    group: str,
    version: str,
    partitions: dg.PartitionsDefinition[str],
    pool: str | None,
    batch: int,
    kinds: Sequence[str] = (),
    checks: Sequence[dg.AssetCheckSpec] = (),
) -> Callable[[Callable[..., Iterator[dg.Output[None]]]], dg.AssetsDefinition]:
    """Decorator: a funnel stage as an asset; its docstring is shown in the web UI.

    ``version`` covers code and prompts, so that the UI shows what is stale. ``batch`` is the largest
    number of partitions in one run of a backfill: it must differ between stages, because Dagster merges
    stages of equal partitions and policy into one run, in which only the first of them would be computed.
    ``kinds`` are shown on the graph. ``checks`` are of the asset as a whole: ``fan_out`` logs them.
    """

    def decorate(body: Callable[..., Iterator[dg.Output[None]]]) -> dg.AssetsDefinition:
        spec = dg.AssetSpec(
            name,
            deps=list(deps),
            group_name=group,
            code_version=version,
            description=paragraphs(body.__doc__ or ""),
            kinds=set(kinds),
            owners=[owner_of(group)],
            skippable=True,
        )
        return dg.multi_asset(
            name=name,
            specs=[spec],
            check_specs=[*accepted(name, partitions), *checks],
            partitions_def=partitions,
            can_subset=True,
            config_schema=RUN_CONFIG,
            pool=pool,
            backfill_policy=dg.BackfillPolicy.multi_run(batch),
        )(body)

    return decorate


def paragraphs(text: str) -> str:
    """A docstring as Markdown: one line a paragraph."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def owner_of(group: str) -> str:
    """``s3_environments`` -> ``team:environments``: who is asked about a group's assets."""
    return f"team:{group.rpartition('_')[2]}"


def fan_out(
    context: dg.AssetExecutionContext,
    stage: Stage,
    compute: Compute,
    *,
    ledger: Ledger,
    store: ArtifactStore,
    workers: int,
    links: Links = no_links,
    llm: LLM | None = None,
    sandbox: Sandbox | None = None,
    harness: Harness | None = None,
    summary: Summary = stage_summary,
    whole: Callable[[], Sequence[dg.AssetCheckEvaluation]] = tuple,
) -> Iterator[dg.Output[None]]:
    """Settle every partition of the run and log it. Raises dg.Failure when some hit infrastructure trouble.

    It yields nothing: an output would materialize the whole range, good or bad. When the run or its backfill is
    cancelled, no partition begins any more, ``llm`` begins no new call, ``sandbox`` and ``harness`` end what runs,
    and the run ends as cancelled. What ``llm`` did, and the ``summary`` of all results, are observed on the asset at
    the end, and the checks of ``whole`` are made.
    """
    own(context)
    keys = list(context.partition_keys)
    planned = plan(stage, keys, ledger)
    report = run_stage(
        stage.name,
        planned.work,
        compute,
        ledger=ledger,
        store=store,
        emit=Emitter(context, stage.name, links, Neighbours(ledger)),
        workers=context.op_execution_context.op_config["workers"] or workers,
        run_id=context.run.run_id,
        stop=lambda: _stop(llm, sandbox, harness),
        halt=Pulse(context, len(keys)),
    )
    report.failed |= {key: f"{name} has no current result" for key, name in planned.missing.items()}
    shown = {f"llm/{name}": value for name, value in llm.counters().items()} if llm else {}
    for seen in (shown, summary(report.results)):
        if seen:
            context.log_event(dg.AssetObservation(stage.name, metadata=dict(seen)))
    if report.halted:
        end_cancelled(context, report, len(keys))
    for evaluation in whole():
        context.log_event(evaluation)
    context.log.info(f"{stage.name}: {report.computed} computed, {len(report.results) - report.computed} cached")
    if report.failed:
        raise _failure(report.failed, len(keys))
    yield from ()


def _failure(failed: Mapping[str, str], total: int) -> dg.Failure:
    first = next(iter(failed.values()))
    return dg.Failure(
        f"{len(failed)} of {total} partitions failed, first: {first}",
        metadata={"failed": dg.MetadataValue.json(dict(list(failed.items())[:50]))},
        allow_retries=False,
    )


def _stop(*ports: LLM | Sandbox | Harness | None) -> None:
    for port in ports:
        if port is not None:
            port.stop()


def settle_one(
    context: dg.AssetExecutionContext,
    stage: Stage,
    key: str,
    compute: Compute,
    *,
    ledger: Ledger,
    store: ArtifactStore,
) -> StageResult:
    """Settle one key of an asset without partitions. Raises dg.Failure on infrastructure trouble."""
    own(context)
    planned = plan(stage, [key], ledger)
    report = run_stage(
        stage.name,
        planned.work,
        compute,
        ledger=ledger,
        store=store,
        emit=lambda _: None,
        run_id=context.run.run_id,
    )
    if report.failed:
        raise dg.Failure(f"{stage.name} of {key} failed: {report.failed[key]}", allow_retries=False)
    return report.results[0]
