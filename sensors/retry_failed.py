"""Seeds whose stage failed by trouble of a machine are tried again, in few runs, however scattered they are."""

from collections.abc import Collection, Iterator, Mapping

import dagster as dg
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from assets.partitions import ranges
from facet_dagster.domain.ids import digest
from facet_dagster.funnel import Stage, current, plan
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.pipeline.rollouts import rollout_stages
from facet_dagster.ports import Ledger, TokenCounter
from facet_dagster.settings import Settings

NAME = "retry_failed"
TAG = "facet/sensor"
TRY_TAG = "facet/try"
MOST_TRIES = 3
MOST_KEYS = 500
GOING = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


@dg.sensor(
    name=NAME,
    asset_selection=dg.AssetSelection.groups("s2_seeds", "s3_environments", "s4_tasks", "s5_trajectories"),
    minimum_interval_seconds=120,
    default_status=dg.DefaultSensorStatus.STOPPED,
)
def retry_failed(
    context: dg.SensorEvaluationContext,
    settings: dg.ResourceParam[Settings],
    ledger: dg.ResourceParam[Ledger],
    tokens: dg.ResourceParam[TokenCounter],
) -> dg.SensorResult | dg.SkipReason:
    """Tries failed seeds again, three times at most, the first stage that has some first. No rejection is touched."""
    if context.instance.get_runs(dg.RunsFilter(tags={TAG: NAME}, statuses=GOING), limit=1):
        return dg.SkipReason("the runs that were requested last are not over")
    spent = 0
    for stage in (*seed_stages(settings), *rollout_stages(settings, tokens.name)):
        failed = failures(context.instance, stage, ledger)
        again = {key: run for key, run in failed.items() if _tries(run) < MOST_TRIES}
        spent += len(failed) - len(again)
        if again:
            return dg.SensorResult(run_requests=list(requests(context.instance, stage, again, ledger)))
    return dg.SkipReason(
        f"nothing to try again; {spent} seeds failed {MOST_TRIES} times: `facet why SEED` or their runs"
    )


def failures(instance: dg.DagsterInstance, stage: Stage, ledger: Ledger) -> dict[str, dg.DagsterRun]:
    """Seed -> the run in which it failed last, where there is still no current result and the stage above has one."""
    tried = instance.event_log_storage.get_latest_asset_partition_materialization_attempts_without_materializations(
        dg.AssetKey(stage.name)
    )
    if not tried:
        return {}
    runs = {run.run_id: run for run in instance.get_runs(dg.RunsFilter(run_ids=[run for run, _ in tried.values()]))}
    failed = {k: runs[run] for k, (run, _) in tried.items() if run in runs and runs[run].is_failure}
    standing = current(stage, sorted(failed), ledger)
    ready = {work.key for work in plan(stage, sorted(failed), ledger).work}
    return {key: run for key, run in failed.items() if key in ready and key not in standing}


def requests(
    instance: dg.DagsterInstance, stage: Stage, failed: Mapping[str, dg.DagsterRun], ledger: Ledger
) -> Iterator[dg.RunRequest]:
    """One for each range; what lies between two failed seeds has its result, and is only shown again."""
    order = list(instance.get_dynamic_partitions("seed"))
    for first, last in ranges(order, failed, _settled(stage, order, ledger), MOST_KEYS):
        inside = [failed[key] for key in order[order.index(first) : order.index(last) + 1] if key in failed]
        tries = max(_tries(run) for run in inside) + 1
        key = digest(sorted({run.run_id for run in inside}))[:16]
        yield dg.RunRequest(
            run_key=f"{NAME}/{stage.name}/{first}/{last}/{key}",
            asset_selection=[dg.AssetKey(stage.name)],
            tags={
                ASSET_PARTITION_RANGE_START_TAG: first,
                ASSET_PARTITION_RANGE_END_TAG: last,
                TAG: NAME,
                TRY_TAG: str(tries),
            },
        )


def _settled(stage: Stage, order: list[str], ledger: Ledger) -> Collection[str]:
    return current(stage, order, ledger).keys()


def _tries(run: dg.DagsterRun) -> int:
    return int(run.tags.get(TRY_TAG, "0"))
