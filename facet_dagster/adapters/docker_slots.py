"""Slots of one engine: how many builds and trials run on it at once, over all processes, first come first served."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from facet_dagster.adapters.file_locks import ALONE, held, lock_errors, locked

_POLL = 0.005  # only the oldest waiter looks; a look takes some 0.05 ms
_STRIPES = 512


def default_slots_dir() -> Path:
    """One folder a machine: the engine and the CPUs are shared by everything that runs here."""
    return Path(tempfile.gettempdir()) / "facet-slots"


class Slots:
    """``count`` slots named ``name``, each a file lock that the system frees when its process dies.

    Who waits holds a numbered ticket, itself a locked file, and waits until every older ticket is gone. So
    only the oldest waiter looks for a free slot, and a waiter that is killed leaves its place to the next.
    ``check`` is called while one waits for a free slot, and raises what ends the waiting.
    """

    def __init__(self, folder: Path, name: str, count: int, check: Callable[[], None] = lambda: None) -> None:
        self._check = check
        self._folder, self._name = folder, name
        self._slots = [folder / f"{name}-{n}.lock" for n in range(count)]

    @contextmanager
    def take(self) -> Iterator[int]:
        """Wait for a free slot and hold it; gives its number, which nobody else has meanwhile."""
        with lock_errors(self._folder):
            number, slot = self._wait()
        try:
            yield number
        finally:
            os.close(slot)

    def _wait(self) -> tuple[int, int]:
        ticket, file, older = self._queue()
        try:
            for path in older:
                _wait_until_gone(path)
            return self._first_free()
        finally:
            ticket.unlink(missing_ok=True)
            os.close(file)

    def _queue(self) -> tuple[Path, int, list[Path]]:
        """A new ticket at the end, its descriptor, and the tickets before it, latest first."""
        with held(self._folder / f"{self._name}.queue"):
            found = sorted(self._folder.glob(f"{self._name}.ticket-*"), key=_number)
            ticket = self._folder / f"{self._name}.ticket-{_number(found[-1]) + 1 if found else 0}"
            file = locked(ticket, ALONE)
        assert file is not None
        return ticket, file, found[::-1]

    def _first_free(self) -> tuple[int, int]:
        while True:
            self._check()
            for number, path in enumerate(self._slots):
                slot = locked(path, ALONE, wait=False)
                if slot is not None:
                    return number, slot
            time.sleep(_POLL)


def _number(ticket: Path) -> int:
    return int(ticket.name.rpartition("-")[2])


def _wait_until_gone(ticket: Path) -> None:
    """Until its owner has got a slot or died; a dead owner's file is removed."""
    if ticket.exists():
        with held(ticket):
            ticket.unlink(missing_ok=True)


@contextmanager
def one_at_a_time(folder: Path, name: str) -> Iterator[None]:
    """Hold ``name`` (hex digits) against every other process. Few files serve all names."""
    with lock_errors(folder):
        file = locked(folder / f"name-{int(name, 16) % _STRIPES}.lock", ALONE)
    assert file is not None
    try:
        yield
    finally:
        os.close(file)
