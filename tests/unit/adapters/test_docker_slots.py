from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from facet_dagster.adapters.docker_slots import Slots, one_at_a_time
from facet_dagster.errors import SandboxError

HOLD = """
import sys, time, pathlib
from facet_dagster.adapters.docker_slots import Slots
with Slots(pathlib.Path(sys.argv[1]), "trial", 1).take():
    print("held", flush=True)
    time.sleep(600)
"""


def test_never_more_than_the_count_hold_a_slot(tmp_path: Path) -> None:
    running: list[int] = []
    most: list[int] = []
    guard, slots = threading.Lock(), Slots(tmp_path, "trial", 2)

    def work(_: int) -> None:
        with slots.take() as number:
            with guard:
                running.append(number)
                most.append(len(running))
                assert len(set(running)) == len(running), "two hold one slot"
            with guard:
                running.remove(number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(40)))
    assert len(most) == 40
    assert max(most) <= 2


def test_a_killed_process_frees_its_slot(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    holder.kill()
    holder.wait()
    holder.stdout.close()
    with Slots(tmp_path, "trial", 1).take() as number:
        assert number == 0


def test_one_name_is_held_once(tmp_path: Path) -> None:
    inside: list[str] = []

    def work(_: int) -> None:
        with one_at_a_time(tmp_path, "abc123"):
            assert not inside
            inside.append("x")
            inside.pop()

    with ThreadPoolExecutor(4) as pool:
        assert len(list(pool.map(work, range(20)))) == 20


def test_an_unusable_folder_is_one_clear_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SandboxError, match="make the folder writable"), Slots(tmp_path / "file", "x", 1).take():
        pass


WAIT = """
import sys, time, pathlib
from facet_dagster.adapters.docker_slots import Slots
print("waiting", flush=True)
with Slots(pathlib.Path(sys.argv[1]), "trial", 1).take():
    print("held", flush=True)
"""


def _tickets(folder: Path, count: int) -> None:
    while len(list(folder.glob("trial.ticket-*"))) != count:
        pass


def test_who_came_first_is_served_first(tmp_path: Path) -> None:
    served: list[int] = []

    def work(number: int) -> None:
        with Slots(tmp_path, "trial", 1).take():
            served.append(number)

    with ThreadPoolExecutor(6) as pool, Slots(tmp_path, "trial", 1).take():
        for number in range(6):
            pool.submit(work, number)
            _tickets(tmp_path, number + 1)
        assert served == []
    assert served == [0, 1, 2, 3, 4, 5]


def test_a_killed_waiter_leaves_its_place_to_the_next(tmp_path: Path) -> None:
    with Slots(tmp_path, "trial", 1).take():
        waiter = subprocess.Popen([sys.executable, "-c", WAIT, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        _tickets(tmp_path, 1)
        waiter.kill()
        waiter.communicate()
    with Slots(tmp_path, "trial", 1).take() as number:
        assert number == 0
    assert list(tmp_path.glob("trial.ticket-*")) == []
