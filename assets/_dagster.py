"""The only translator between the funnel's results and Dagster's events.

A run handles a range of partitions in one process; every partition gets its own materialization and
``accepted`` check as soon as it is settled, cached results included. A rejection is a materialized
verdict with a failed WARN check. Only infrastructure trouble fails the run, at its end.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData,
)
from dagster._core.events import (
    DagsterEvent,
    DagsterEventBatchMetadata,
    DagsterEventType,
    generate_event_batch_id,
)

from assets.checks import CHECK, accepted
from assets.rejections import Neighbours, metadata, reason_line
from facet_dagster.adapters.process_owner import current_owner
from facet_dagster.domain.outcome import StageResult, Verdict
from facet_dagster.funnel import Compute, Stage, plan, run_stage
from facet_dagster.ports import LLM, ArtifactStore, Harness, Ledger, Sandbox

OWNER_TAG = "facet/owner"
Links = Callable[[str], Mapping[str, str]]


def own(context: dg.OpExecutionContext | dg.AssetExecutionContext) -> None:
    """Write this process on its run, so that the run can be failed when the process is killed."""
    context.instance.add_run_tags(context.run.run_id, {OWNER_TAG: current_owner()})


def no_links(key: str) -> Mapping[str, str]:
    del key
    return {}


def stage_asset(
    name: str,
    *,
    deps: Sequence[str],
    group: str,
    version: str,
    partitions: dg.PartitionsDefinition[str],
    pool: str | None,
    batch: int,
    checks: Sequence[dg.AssetCheckSpec] = (),
) -> Callable[[Callable[..., Iterator[dg.Output[None]]]], dg.AssetsDefinition]:
    """Decorator: a funnel stage as an asset; its docstring is shown in the web UI.

    ``version`` covers code and prompts, so that the UI shows what is stale. ``batch`` is the largest
    number of partitions in one run of a backfill: it must differ between stages, because Dagster merges
    stages of equal partitions and policy into one run, in which only the first of them would be computed.
    ``checks`` are of the asset as a whole: ``fan_out`` logs them.
    """

    def decorate(body: Callable[..., Iterator[dg.Output[None]]]) -> dg.AssetsDefinition:
        text = " ".join((body.__doc__ or "").split())
        spec = dg.AssetSpec(
            name, deps=list(deps), group_name=group, code_version=version, description=text, skippable=True
        )
        return dg.multi_asset(
            name=name,
            specs=[spec],
            check_specs=[*accepted(name, partitions), *checks],
            partitions_def=partitions,
            can_subset=True,
            pool=pool,
            backfill_policy=dg.BackfillPolicy.multi_run(batch),
        )(body)

    return decorate


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
    summary: Callable[[Sequence[StageResult]], Mapping[str, dg.MetadataValue]] | None = None,
    whole: Callable[[], Sequence[dg.AssetCheckEvaluation]] = tuple,
) -> Iterator[dg.Output[None]]:
    """Settle every partition of the run and log it. Raises dg.Failure when some hit infrastructure trouble.

    It yields nothing: an output would materialize the whole range, good or bad. When the run is cancelled,
    ``llm`` begins no new call, ``sandbox`` and ``harness`` end what runs. What ``llm`` did, and the ``summary`` of
    all results, are observed on the asset at the end, and the checks of ``whole`` are made.
    """
    own(context)
    keys, alike = list(context.partition_keys), Neighbours(ledger)
    planned = plan(stage, keys, ledger)
    report = run_stage(
        stage.name,
        planned.work,
        compute,
        ledger=ledger,
        store=store,
        emit=lambda results: _emit(context, results, links, alike),
        workers=workers,
        run_id=context.run.run_id,
        stop=lambda: _stop(llm, sandbox, harness),
    )
    if llm:
        context.log_event(dg.AssetObservation(stage.name, metadata={f"llm/{k}": v for k, v in llm.counters().items()}))
    if summary:
        context.log_event(dg.AssetObservation(stage.name, metadata=dict(summary(report.results))))
    for evaluation in whole():
        context.log_event(evaluation)
    failed = {key: f"{name} has no current result" for key, name in planned.missing.items()} | report.failed
    context.log.info(f"{stage.name}: {report.computed} computed, {len(report.results) - report.computed} cached")
    if failed:
        shown = dict(list(failed.items())[:50])
        raise dg.Failure(
            f"{len(failed)} of {len(keys)} partitions failed, first: {next(iter(failed.values()))}",
            metadata={"failed": dg.MetadataValue.json(shown)},
            allow_retries=False,
        )
    yield from ()


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


def _emit(context: dg.AssetExecutionContext, results: Sequence[StageResult], links: Links, alike: Neighbours) -> None:
    """Materializations as one batch (one insert), then a check for each."""
    key = dg.AssetKey(results[0].stage)
    step, batch = context.op_execution_context._step_execution_context, generate_event_batch_id()
    for index, result in enumerate(results):
        event = dg.AssetMaterialization(
            key,
            partition=result.key,
            metadata=metadata(result, {**links(result.key), **alike.links(result)}),
            tags={
                "dagster/data_version": (result.output or result.input_digest)[:32],
                "dagster/data_version_is_user_provided": "true",
            },
        )
        DagsterEvent.asset_materialization(step, event, DagsterEventBatchMetadata(batch, index == len(results) - 1))
    _check(context, key, [r for r in results if r.verdict is not Verdict.NOT_REACHED])


def _check(context: dg.AssetExecutionContext, key: dg.AssetKey, results: Sequence[StageResult]) -> None:
    storage_ids = context.instance.event_log_storage.get_latest_storage_id_by_partition(
        key, DagsterEventType.ASSET_MATERIALIZATION, {result.key for result in results}
    )
    for result in results:
        ok = result.verdict is Verdict.ACCEPTED
        context.log_event(
            dg.AssetCheckEvaluation(
                asset_key=key,
                check_name=CHECK,
                passed=ok,
                partition=result.key,
                severity=dg.AssetCheckSeverity.WARN,
                description=reason_line(result),
                metadata={} if ok else metadata(result, {}),
                target_materialization_data=AssetCheckEvaluationTargetMaterializationData(
                    storage_id=storage_ids[result.key], run_id=context.run.run_id, timestamp=time.time()
                ),
            )
        )
