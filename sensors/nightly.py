"""The nightly synthesis: every stage in order over a batch named after the night."""

import os
import subprocess
import sys

import dagster as dg

from assets._dagster import own

TAIL = 20_000


class NightConfig(dg.Config):
    """``batch`` is the label of the seeds that this night selects."""

    batch: str


@dg.op(pool="night")
def synthesise(context: dg.OpExecutionContext, config: NightConfig) -> None:
    """Drive the funnel in one child process; each stage becomes a run of its own."""
    own(context)
    command = [sys.executable, "-m", "facet_dagster.launch", "--batch", config.batch]
    command += ["--parent", str(os.getpid())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    context.log.info(done.stdout[-TAIL:])
    if done.returncode != 0:
        raise dg.Failure(f"The night ended early: {done.stderr[-TAIL:]}", allow_retries=False)


@dg.job
def night() -> None:
    """Select new pairs and carry them to certified tasks."""
    synthesise()


@dg.schedule(cron_schedule="0 2 * * *", job=night, default_status=dg.DefaultScheduleStatus.STOPPED)
def nightly(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
    """At 02:00, one run a night: the run key keeps a second tick of the same night away."""
    batch = f"{context.scheduled_execution_time:%y%m%d}"
    config = {"ops": {"synthesise": {"config": {"batch": batch}}}}
    return dg.RunRequest(run_key=batch, run_config=config)
