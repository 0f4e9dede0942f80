"""A process that was killed cannot say so: its runs stay "started" and keep their places in the pools."""

import dagster as dg

from assets._dagster import OWNER_TAG
from facet_dagster.adapters.process_owner import is_dead

UNFINISHED = [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]


def release_dead_runs(instance: dg.DagsterInstance) -> list[str]:
    """Fail the runs whose process has certainly ended, and free their places; gives their ids.

    What they had settled is in the ledger: the next run reads it back.
    """
    dead = [
        run for run in instance.get_runs(dg.RunsFilter(statuses=UNFINISHED)) if is_dead(run.tags.get(OWNER_TAG, ""))
    ]
    # One that ended by itself after it was listed is no dead one.
    dead = [run for run in dead if (now := instance.get_run_by_id(run.run_id)) and now.status in UNFINISHED]
    for run in dead:
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
        instance.report_run_failed(run, "The process of this run was killed. Run it again: nothing is computed twice.")
    return [run.run_id for run in dead]


@dg.sensor(minimum_interval_seconds=30, default_status=dg.DefaultSensorStatus.RUNNING)
def dead_runs(context: dg.SensorEvaluationContext) -> dg.SkipReason:
    """Fails runs whose process was killed, so that nothing waits for them."""
    released = release_dead_runs(context.instance)
    return dg.SkipReason(f"failed {', '.join(released)}" if released else "every unfinished run has its process")
