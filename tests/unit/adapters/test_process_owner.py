from __future__ import annotations

import os
import subprocess
import sys

import pytest

from facet_dagster.adapters.process_owner import current_owner, is_dead


def changed(position: int, value: str) -> str:
    parts = current_owner().rsplit(":", 3)
    parts[position] = value
    return ":".join(parts)


def test_this_process_lives() -> None:
    assert not is_dead(current_owner())


def test_a_process_that_ended_is_dead() -> None:
    code = "from facet_dagster.adapters.process_owner import current_owner; print(current_owner())"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert is_dead(ended)


@pytest.mark.parametrize(("position", "value"), [(1, "4194399"), (2, "1"), (3, "another-boot")])
def test_another_process_start_or_boot_under_the_same_id_is_dead(position: int, value: str) -> None:
    assert is_dead(changed(position, value))


def test_a_zombie_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_dead(changed(1, str(child.pid)))
    child.wait()


@pytest.mark.parametrize(
    "label",
    ["", "x", "a:b", "::::", changed(0, "another-host"), changed(1, "not-a-number")],
    ids=["empty", "x", "a:b", "colons", "another-host", "not-a-number"],
)
def test_what_cannot_be_judged_counts_as_alive(label: str) -> None:
    assert not is_dead(label)
