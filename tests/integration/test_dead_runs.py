"""Runs whose process was killed: failed, and their places in the pools free again."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.execution.plan.instance_concurrency_context import InstanceConcurrencyContext

from sensors.dead_runs import release_dead_runs
from tests.integration.test_dagster_storage import ROOT, instance

__all__ = ["instance"]

pytestmark = pytest.mark.postgres

# A run in a pool of one place that does not end; it says when it is inside.
HANG = """
import sys, time
import dagster as dg
from assets._dagster import own

@dg.op(pool="narrow")
def wait_for_ever(context):
    own(context)
    print(context.run_id, flush=True)
    time.sleep(600)

@dg.job
def hang():
    wait_for_ever()

with dg.DagsterInstance.from_config(sys.argv[1]) as instance:
    hang.execute_in_process(instance=instance)
"""


# A run that needs the same place.
THROUGH = """
import sys
import dagster as dg

@dg.op(pool="narrow")
def pass_through():
    pass

@dg.job
def through():
    pass_through()

with dg.DagsterInstance.from_config(sys.argv[1]) as instance:
    print("waits", flush=True)
    sys.exit(0 if through.execute_in_process(instance=instance).success else 1)
"""


def start(code: str, home: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, str(home)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


@pytest.fixture
def hanging(instance: dg.DagsterInstance, tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    instance.event_log_storage.set_concurrency_slots("narrow", 1)
    process = start(HANG, tmp_path)
    assert process.stdout is not None
    run_id = process.stdout.readline().strip()
    assert run_id
    yield run_id, process
    process.kill()
    process.communicate()


def status(instance: dg.DagsterInstance, run_id: str) -> dg.DagsterRunStatus:
    run = instance.get_run_by_id(run_id)
    assert run is not None
    return run.status


def test_a_living_run_is_left_alone(
    instance: dg.DagsterInstance,
    hanging: tuple[str, subprocess.Popen[str]],
) -> None:
    assert release_dead_runs(instance) == []
    assert status(instance, hanging[0]) is dg.DagsterRunStatus.STARTED


def test_a_killed_run_is_failed_and_whoever_waits_for_its_place_gets_it(
    instance: dg.DagsterInstance,
    hanging: tuple[str, subprocess.Popen[str]],
    tmp_path: Path,
) -> None:
    run_id, process = hanging
    waiter = start(THROUGH, tmp_path)
    assert waiter.stdout is not None
    assert waiter.stdout.readline() == "waits\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(2)
    assert waiter.poll() is None, "the place is still taken"
    assert release_dead_runs(instance) == [run_id]
    assert waiter.wait(300) == 0
    waiter.stdout.close()
    assert status(instance, run_id) is dg.DagsterRunStatus.FAILURE
    assert release_dead_runs(instance) == []


def test_who_waits_for_a_pool_sleeps(instance: dg.DagsterInstance) -> None:
    """The pinned release answers 0 always: its loop then takes a whole core."""
    with InstanceConcurrencyContext(instance, dg.DagsterRun(job_name="j")) as waiting:
        assert waiting.interval_to_next_pending_claim_check() > 0
        waiting._pending_timeouts["step"] = time.time() + 30
        assert waiting.interval_to_next_pending_claim_check() == pytest.approx(30, abs=5)
