"""What the guard of a build sees and writes, on folders that look like the kernel's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from facet_dagster.adapters.docker_build_guard import BuildGuard
from facet_dagster.domain.trial import Limits

LIMITS = Limits(memory=1000, pids=10, cpus=1.5, disk=10_000)
STEP, OTHER, CONTAINER = "a" * 25, "b" * 25, "c" * 64
DOCKERFILE = 'FROM x\nRUN --network=none python3 \\\n  /build/make.py && true\nRUN ["./run", "a b"]\n'
COMMAND = ["/bin/sh", "-c", "python3   /build/make.py && true"]


class Machine:
    """Control groups of version 1 or 2, the engine's folder and /proc."""

    def __init__(self, folder: Path, version: int) -> None:
        self.root, self.proc, self.data = folder / "cgroup", folder / "proc", folder / "data"
        self._version = version
        for place in (self.root / "pids" if version == 1 else self.root, self.proc, self.data):
            place.mkdir(parents=True)
        self.oom_kills(3)

    def group(self, ident: str, *, memory: int = 1, tasks: int = 1, command: list[str] | None = None) -> None:
        if command:
            bundle = self.data / "buildkit" / "executor" / ident
            bundle.mkdir(parents=True, exist_ok=True)
            (bundle / "config.json").write_text(json.dumps({"process": {"args": command}}))
        one = {"memory.stat": f"cache 99999\ntotal_rss {memory}\ntotal_shmem 1\n", "memory.limit_in_bytes": ""}
        two = {"memory.stat": f"file 99999\nanon {memory}\nshmem 1\n", "memory.max": "", "memory.swap.max": "max"}
        pids = {"pids.current": f"{tasks}\n", "pids.max": "", "cgroup.procs": "77\n"}
        if self._version == 1:
            cpu = {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}
            files = {"memory": {**one, "memory.memsw.limit_in_bytes": "max"}, "pids": pids, "cpu": cpu}
        else:
            files = {"": {**two, **pids, "cpu.max": "max 100000"}}
        for controller, contents in files.items():
            place = self.place(controller, ident)
            place.mkdir(parents=True, exist_ok=True)
            for name, content in contents.items():
                (place / name).write_text(content)

    def place(self, controller: str, ident: str) -> Path:
        if self._version == 1:
            return self.root / controller / "docker" / ("" if len(ident) > 25 else "buildkit") / ident
        return self.root / "system.slice" / f"docker-{ident}.scope"

    def oom_kills(self, count: int) -> None:
        (self.proc / "vmstat").write_text(f"nr_free_pages 5\noom_kill {count}\n")

    def guard(self, *, local: bool = True) -> BuildGuard:
        return BuildGuard(DOCKERFILE, LIMITS, self.data if local else None, root=self.root, proc=self.proc)


@pytest.fixture(params=[1, 2])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    return Machine(tmp_path, request.param)


def test_the_kernel_gets_the_limits_of_our_steps_and_of_nobody_elses(machine: Machine) -> None:
    guard = machine.guard()
    machine.group(STEP, command=COMMAND)
    machine.group(OTHER, command=["/bin/sh", "-c", "make"], memory=5000, tasks=500)
    assert guard.check() is None
    assert (machine.place("pids", STEP) / "pids.max").read_text() == "20"
    assert (machine.place("pids", OTHER) / "pids.max").read_text() == ""
    memory = "memory.limit_in_bytes" if machine.place("memory", STEP).parent.name == "buildkit" else "memory.max"
    assert (machine.place("memory", STEP) / memory).read_text() == "1250"


@pytest.mark.parametrize(("memory", "tasks", "excess"), [(1000, 10, "memory"), (999, 11, "processes"), (999, 10, None)])
def test_what_is_over_a_limit_is_told(machine: Machine, memory: int, tasks: int, excess: str | None) -> None:
    guard = machine.guard()
    machine.group(STEP, command=["./run", "a b"], memory=memory, tasks=tasks)
    assert guard.check() == excess


def test_a_step_that_ran_before_is_not_ours(machine: Machine) -> None:
    machine.group(STEP, command=COMMAND, memory=5000)
    assert machine.guard().check() is None


def test_who_may_not_read_the_engines_folder_sees_the_command_of_the_process(machine: Machine) -> None:
    guard = machine.guard()
    machine.group(STEP, memory=5000)
    assert guard.check() is None
    (machine.proc / "77").mkdir()
    (machine.proc / "77" / "cmdline").write_bytes(b"\0".join(part.encode() for part in COMMAND) + b"\0")
    assert guard.check() == "memory"


def test_a_container_of_the_classic_builder_is_known_by_its_id(machine: Machine) -> None:
    guard = machine.guard()
    machine.group(CONTAINER, tasks=50)
    assert guard.check() is None
    assert guard.check(CONTAINER[:12]) == "processes"


OVERLAY = "rw,relatime - overlay overlay rw,lowerdir=/l,upperdir={upper},workdir=/w\n"


@pytest.mark.parametrize(
    ("mounts", "excess"),
    [
        ("83 53 0:43 / / " + OVERLAY, "disk"),
        ("20 1 8:1 / / rw - ext4 /dev/vda rw\n83 20 0:43 / /data/overlay2/x/merged " + OVERLAY, None),
    ],
    ids=["started", "being started"],
)
def test_what_a_step_writes_is_counted_with_its_inodes(machine: Machine, mounts: str, excess: str | None) -> None:
    upper = machine.data / "overlay2" / "x" / "diff"
    (upper / "folder").mkdir(parents=True)
    (machine.proc / "77").mkdir()
    (machine.proc / "77" / "mountinfo").write_text(mounts.format(upper=upper))
    for name in ("a", "folder/b"):
        (upper / name).touch()
    guard = machine.guard()
    machine.group(STEP, command=COMMAND)
    assert guard.check() == excess, "three entries of 4 KiB"


def test_an_engine_elsewhere_shows_nothing(machine: Machine) -> None:
    guard = machine.guard(local=False)
    machine.group(STEP, command=COMMAND, memory=5000)
    assert guard.check() is None


def test_a_kill_for_memory_since_the_start_is_seen(machine: Machine) -> None:
    guard = machine.guard()
    assert not guard.was_out_of_memory()
    machine.oom_kills(4)
    assert guard.was_out_of_memory()
