"""The nightly synthesis: one run a night, whose child process does what `facet night` does."""

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import dagster as dg

from assets._dagster import own
from facet_dagster.settings import load_settings

TAIL = 20_000
LATE = timedelta(hours=12)
PATIENCE_SECONDS = 300.0
GOING = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


class NightConfig(dg.Config):
    """``batch`` is the label of the night and of the seeds that it selects; today's yymmdd when empty."""

    batch: str = ""


@dg.op(pool="night")
def synthesise(context: dg.OpExecutionContext, config: NightConfig) -> None:
    """Drive the funnel in one child process; each stage becomes a run of its own."""
    own(context)
    command = [sys.executable, "-m", "facet_dagster.night", "--parent", str(os.getpid())]
    command += ["--batch", config.batch] if config.batch else []
    code, said = _until_it_ends(command)
    context.log.info(said)
    if code != 0:
        raise dg.Failure(f"The night did not end well: {said[-1000:]}", allow_retries=False)


def _until_it_ends(command: list[str]) -> tuple[int, str]:
    """Exit code and the tail of what it said. When this run is cancelled, the child ends what is in flight first."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, process_group=0)
    try:
        said, _ = process.communicate()
    except BaseException:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise
    return process.returncode, said[-TAIL:]


@dg.job
def night() -> None:
    """Changed sources in, new seeds through every stage, released tasks replayed, a dated release out."""
    synthesise()


def nightly_schedule(cron: str, timezone: str, *, on: bool) -> dg.ScheduleDefinition:
    """The schedule as the settings want it."""
    status = dg.DefaultScheduleStatus.RUNNING if on else dg.DefaultScheduleStatus.STOPPED

    @dg.schedule(name="nightly", cron_schedule=cron, execution_timezone=timezone, job=night, default_status=status)
    def nightly(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        """One run a night. The run key keeps a second tick of the same night away, as after a clock that was set back.

        A tick that comes late by more than half a day, as after a clock that was set on, and one that comes while a
        night is at work are left out: the next night makes up for it.
        """
        moment = context.scheduled_execution_time
        if datetime.now(UTC) - moment.astimezone(UTC) > LATE:
            return dg.SkipReason(f"The tick of {moment:%Y-%m-%d %H:%M} comes too late: the next night makes up for it.")
        if going := context.instance.get_runs(dg.RunsFilter(job_name=night.name, statuses=GOING), limit=1):
            return dg.SkipReason(f"Run {going[0].run_id} of a night is not over: the next night makes up for this one.")
        batch = f"{moment:%y%m%d}"
        return dg.RunRequest(run_key=batch, run_config={"ops": {"synthesise": {"config": {"batch": batch}}}})

    return nightly


_settings = load_settings()
nightly = nightly_schedule(_settings.night_cron, _settings.night_timezone, on=_settings.night_on)
