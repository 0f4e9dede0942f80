"""Holds on images, between threads' file descriptors and between processes."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from facet_dagster.adapters.docker_holds import Holds
from facet_dagster.errors import SandboxError

HOLD = """
import sys, time
from pathlib import Path
from facet_dagster.adapters.docker_holds import Holds
with Holds(Path(sys.argv[1])).hold("facet-task:ab"):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_only_an_image_that_nobody_holds_is_free(tmp_path: Path) -> None:
    holds = Holds(tmp_path)
    with holds.hold("facet-task:ab"), holds.hold("facet-task:ab"):
        with holds.alone("facet-task:ab") as free:
            assert not free
        with holds.alone("facet-task:cd") as free:
            assert free
    with holds.alone("facet-task:ab") as free:
        assert free
    assert list(tmp_path.iterdir()) == [], "no file stays behind"


def test_another_process_is_seen_until_it_is_killed(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    with Holds(tmp_path).alone("facet-task:ab") as free:
        assert not free
    holder.kill()
    holder.wait()
    with Holds(tmp_path).alone("facet-task:ab") as free:
        assert free


def test_who_comes_during_a_removal_waits_and_is_seen_afterwards(tmp_path: Path) -> None:
    """The waiter locked the file that the removal unlinks: it must notice and hold the new one."""
    holds, held, done = Holds(tmp_path), threading.Event(), threading.Event()

    def come() -> None:
        with holds.hold("facet-task:ab"):
            held.set()
            done.wait(30)

    waiter = threading.Thread(target=come)
    with holds.alone("facet-task:ab") as free:
        assert free
        waiter.start()
        assert not held.wait(0.2)
    assert held.wait(30)
    with holds.alone("facet-task:ab") as free:
        assert not free
    done.set()
    waiter.join()


def test_a_folder_that_cannot_be_used_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SandboxError, match="make the folder writable"), Holds(tmp_path / "file").hold("x"):
        pass
