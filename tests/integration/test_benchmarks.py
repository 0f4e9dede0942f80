"""The benchmarks of the sandbox still run, and what they leave out they name. No figure is judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from docker import APIClient

from benchmarks.sandbox.bare import Bare
from benchmarks.sandbox.calls import counted
from benchmarks.sandbox.timing import Clock
from benchmarks.sandbox.validation import barely, ours
from facet_dagster.adapters.docker_sandbox import DockerSandbox
from tests.fixtures import task_example as example

pytestmark = pytest.mark.docker
ROOT = Path(__file__).resolve().parents[2]


def test_containers_are_compared_and_nothing_is_left() -> None:
    parts = "round_trip,hardening,endurance"
    command = [sys.executable, "-m", "benchmarks.sandbox", "--only", parts, "--repeat", "1", "--trials", "4"]
    done = subprocess.run(command, cwd=ROOT, env=None, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    told: dict[str, Any] = json.loads(done.stdout)
    left_out = [note.partition(":")[0] for note in told["round_trip"]["notes"]]
    floors = {"bare_bound", "official"} | (
        {"runc", "runc_docker_spec"} - set(left_out) if "runc" not in left_out else set()
    )
    assert set(told["round_trip"]["ours_over"]) == floors
    assert told["hardening"]["limits_over_defaults"] > 0
    closed = told["endurance"]["counts"]["closed"]
    assert [closed[name] for name in ("our_containers", "our_volumes", "our_networks")] == [0, 0, 0]


def test_a_validation_asks_the_engine_for_no_more_containers_than_it_needs(tmp_path: Path) -> None:
    """One that is only read, one for the work, one for each judgement."""
    with closing(DockerSandbox(slots_dir=tmp_path)) as sandbox:
        ours(sandbox, Clock())  # whether folders can be mounted is tried out once
        with counted() as calls:
            ours(sandbox, Clock())
    assert calls["POST /containers/create"] == 4
    assert calls["POST /containers/*/start"] == 3


def test_the_bare_validation_gives_the_same_rewards_and_leaves_nothing() -> None:
    with closing(APIClient(version="auto")) as api:
        with closing(Bare(example.BASE)) as bare:
            barely(bare, Clock())
            idle, tags = bare.made, bare.tags
        assert len(tags) == 2
        assert not [tag for tag in tags if api.images(name=tag)]
        assert not {found["Id"] for found in api.containers(all=True)} & set(idle)
