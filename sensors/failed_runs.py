"""Every run that fails, wherever it was started, is a row of the ledger: `facet failures` lists them."""

import json
import shlex
import subprocess
from datetime import UTC, datetime

import dagster as dg
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    PARTITION_NAME_TAG,
)

from facet_dagster.domain.facts import FailureFact
from facet_dagster.ports import Ledger
from facet_dagster.settings import Settings

TELL_SECONDS = 30.0
MESSAGE = 1_000


@dg.run_failure_sensor(
    name="failed_runs",
    monitor_all_code_locations=True,  # also the runs that `facet run` makes in its own process
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def failed_runs(
    context: dg.RunFailureSensorContext, settings: dg.ResourceParam[Settings], ledger: dg.ResourceParam[Ledger]
) -> None:
    """Notes what failed, where and why. Nothing is sent unless FACET_FAILURE_COMMAND names a program."""
    fact = failure(context)
    ledger.append([fact])
    context.log.warning(f"{', '.join(fact.assets) or fact.job} failed: {fact.message}")
    if settings.failure_command:
        context.log.info(tell(settings.failure_command, fact))


def failure(context: dg.RunFailureSensorContext) -> FailureFact:
    """What the events of the run say; the first failed step counts."""
    run, steps = context.dagster_run, context.get_step_failure_events()
    tags, one = run.tags, run.tags.get(PARTITION_NAME_TAG, "")
    return FailureFact(
        run=run.run_id,
        job=run.job_name,
        assets=sorted(key.to_user_string() for key in run.asset_selection or ()),
        first=tags.get(ASSET_PARTITION_RANGE_START_TAG, one),
        last=tags.get(ASSET_PARTITION_RANGE_END_TAG, one),
        message=" ".join((_of_step(steps[0]) if steps else str(context.failure_event.message)).split())[:MESSAGE],
        moment=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _of_step(event: dg.DagsterEvent) -> str:
    data = event.step_failure_data
    if data.user_failure_data is not None and data.user_failure_data.description:
        return str(data.user_failure_data.description)
    error = data.error.cause or data.error if data.error else None
    return error.message if error else str(event.message)


def tell(command: str, fact: FailureFact) -> str:
    """Give the row to the program; what came of it as a sentence. Whatever it does, the row stays."""
    text = json.dumps(fact.model_dump(mode="json"))
    try:
        done = subprocess.run(
            shlex.split(command), input=text, capture_output=True, text=True, timeout=TELL_SECONDS, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return f"FACET_FAILURE_COMMAND could not be run: {error}"
    return f"FACET_FAILURE_COMMAND ended with code {done.returncode}. {done.stderr[-300:]}".strip()
