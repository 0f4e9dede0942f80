"""Skills that were ingested, changed or withdrawn: their buckets, and no others, are brought up to date."""

import dagster as dg
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from assets.partitions import stretches
from facet_dagster.domain.ids import bucket_keys, digest
from facet_dagster.funnel import stale
from facet_dagster.pipeline.graph import skill_stages
from facet_dagster.ports import Ledger
from facet_dagster.settings import Settings

TAG = "facet/sensor"
NAME = "skills_arrived"
GOING = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
]


@dg.sensor(
    name=NAME,
    asset_selection=["skills", "skill_index"],
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.STOPPED,
)
def skills_arrived(
    context: dg.SensorEvaluationContext, settings: dg.ResourceParam[Settings], ledger: dg.ResourceParam[Ledger]
) -> dg.SensorResult | dg.SkipReason:
    """One run for each stretch of touched buckets, first of ``skills``, then of ``skill_index``; no model is asked."""
    if context.instance.get_runs(dg.RunsFilter(tags={TAG: NAME}, statuses=GOING), limit=1):
        return dg.SkipReason("the runs that were requested last are not over")
    graph = skill_stages(settings, ledger)
    for stage in (graph.skills, graph.skill_index):
        touched = stale(stage, bucket_keys(), ledger)
        if touched:
            requests = [_request(stage.name, first, last, touched) for first, last in stretches(list(touched))]
            return dg.SensorResult(run_requests=requests)
    return dg.SkipReason("every bucket is up to date")


def _request(asset: str, first: str, last: str, touched: dict[str, str]) -> dg.RunRequest:
    inputs = [value for key, value in sorted(touched.items()) if first <= key <= last]
    return dg.RunRequest(
        run_key=f"{asset}/{first}-{last}/{digest(inputs)[:16]}",
        asset_selection=[dg.AssetKey(asset)],
        tags={ASSET_PARTITION_RANGE_START_TAG: first, ASSET_PARTITION_RANGE_END_TAG: last, TAG: NAME},
    )
