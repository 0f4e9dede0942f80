"""What a process leaves on the engine when it is killed, when it is asked to end, and who clears it away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker
import pytest

from facet_dagster.adapters.docker_labels import OWNER, RUN, SUBJECT
from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.adapters.memory_sandbox import MemorySandbox
from facet_dagster.adapters.reap_on_start import reap_on_start
from facet_dagster.domain.trial import Reaped

pytestmark = pytest.mark.docker
BASE = "python:3.11-slim-bookworm"
FACET = Path(sys.executable).with_name("facet")
TRIALS = 8
# Trials side by side, as in a stage; says what it made, and ends as a stage does when it is interrupted.
WORK = """
import sys, threading, time
from pathlib import Path
from facet_dagster.adapters.docker_labels import RUN
from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.adapters.memory import MemoryArtifactStore, MemoryLedger
from facet_dagster.adapters.sandbox_contract import context
from facet_dagster.child import end_orderly
from facet_dagster.funnel import Outcome, Work, run_stage
from facet_dagster.ports import Run

base, slots, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
end_orderly()
sandbox = DockerSandbox(workers=count, pause_image=base, slots_dir=slots, trial_slots=count)
image = sandbox.build(context(base), subject="work").image

def report():
    made = []
    while sum(c["State"] == "running" for c in made) < 2 * count:
        time.sleep(0.1)
        made = sandbox._engine.api.containers(all=True, filters={"label": RUN + "=" + sandbox.run_id})
    print(sandbox.run_id, image, *(c["Id"] for c in made), flush=True)

def compute(key):
    sandbox.run(Run(image, ("sleep", "300"), key))
    return Outcome()

threading.Thread(target=report, daemon=True).start()
work = [Work(f"trial-{n}", "digest") for n in range(count)]
ports = {"ledger": MemoryLedger(), "store": MemoryArtifactStore()}
run_stage("trials", work, compute, emit=lambda _: None, workers=count, stop=sandbox.stop, **ports)
"""


class Worker:
    """A process with trials in flight. ``containers`` are those and their pause containers."""

    def __init__(self, command: list[str], slots: Path, count: int) -> None:
        argv = [*command, sys.executable, "-c", WORK, BASE, str(slots), str(count)]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.run_id, self.image, *self.containers = self.process.stdout.readline().split()

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        code = self.process.wait(timeout=60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@pytest.fixture
def api() -> Iterator[Any]:
    client = docker.APIClient(version="auto", **docker.utils.kwargs_from_env())
    yield client
    client.close()


@contextmanager
def foreign(api: Any, **labels: str) -> Iterator[str]:
    """A container that we did not make."""
    ident = api.create_container(BASE, ["sleep", "300"], labels=labels)["Id"]
    api.start(ident)
    yield ident
    api.remove_container(ident, force=True)


def there(api: Any, *idents: str) -> set[str]:
    return {c["Id"] for c in api.containers(all=True)} & set(idents)


@pytest.fixture
def elsewhere() -> list[str]:
    """Starts a program under a host name of its own, so that only it judges what was made there."""
    if os.geteuid() != 0:
        pytest.skip("a host name of its own needs root")
    return ["unshare", "--uts", "sh", "-c", f'hostname reap-{uuid.uuid4().hex[:8]} && exec "$@"', "sh"]


def reap(command: list[str], home: Path) -> dict[str, Any]:
    environment = {**os.environ, "FACET_HOME": str(home)}
    argv = [*command, str(FACET), "reap", "--json"]
    return dict(json.loads(subprocess.run(argv, env=environment, check=True, capture_output=True, text=True).stdout))


def test_what_a_killed_process_left_is_listed_and_removed_and_nothing_else(
    api: Any, elsewhere: list[str], tmp_path: Path
) -> None:
    killed = Worker(elsewhere, tmp_path / "killed", TRIALS)
    living = Worker(elsewhere, tmp_path / "living", 1)
    assert (len(killed.containers), len(living.containers)) == (2 * TRIALS, 2)
    subjects = {c["Id"]: c["Labels"].get(SUBJECT, "") for c in api.containers(filters={"label": OWNER})}
    with foreign(api) as other:
        killed.end(signal.SIGKILL)
        assert there(api, *killed.containers) == set(killed.containers)
        reaped = reap(elsewhere, tmp_path)
        assert there(api, *killed.containers) == set()
        assert there(api, other, *living.containers) == {other, *living.containers}
        assert api.inspect_container(living.containers[0])["State"]["Running"]
    assert {line["id"]: line["subject"] for line in reaped["containers"]} == {i: subjects[i] for i in killed.containers}
    assert sorted(filter(None, map(subjects.get, killed.containers))) == [f"trial-{n}" for n in range(TRIALS)]
    assert (reaped["images"], reaped["networks"], reaped["volumes"]) == ([killed.image], [], [])
    assert reap(elsewhere, tmp_path) == {"containers": [], "images": [], "networks": [], "volumes": []}
    assert living.end(signal.SIGTERM) == 128 + signal.SIGTERM
    assert reap(elsewhere, tmp_path)["images"] == [living.image]


def test_sigterm_in_the_middle_of_trials_leaves_no_container(api: Any, tmp_path: Path) -> None:
    worker = Worker([], tmp_path, TRIALS)
    assert there(api, *worker.containers) == set(worker.containers)
    assert worker.end(signal.SIGTERM) == 128 + signal.SIGTERM
    assert api.containers(all=True, filters={"label": f"{RUN}={worker.run_id}"}) == []
    api.remove_image(worker.image)


def test_a_process_that_starts_reaps_once_a_minute_for_the_machine(tmp_path: Path) -> None:
    asked: list[bool] = []

    class Counting(MemorySandbox):
        def reap(self, *, images: bool = False, everything: bool = False) -> Reaped:
            asked.append(images or everything)
            return Reaped()

    for _ in range(3):
        reap_on_start(Counting(), tmp_path).join()
    assert asked == [False], "containers only, and once"
    long_ago = time.time() - 61
    os.utime(tmp_path / "reaped", (long_ago, long_ago))
    reap_on_start(Counting(), tmp_path).join()
    assert asked == [False, False]


def test_a_process_that_starts_removes_the_containers_of_dead_ones(api: Any, tmp_path: Path) -> None:
    dead = f"{os.uname().nodename}:1:1:another-boot"
    sandbox = DockerSandbox(slots_dir=tmp_path)
    with foreign(api) as other:
        left = api.create_container(BASE, ["true"], labels={OWNER: dead, SUBJECT: "left"})["Id"]
        reap_on_start(sandbox, tmp_path).join()
        assert there(api, left, other) == {other}
    sandbox.close()


def test_a_folder_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    reap_on_start(MemorySandbox(), tmp_path / "file" / "folder").join()
