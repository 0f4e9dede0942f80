"""Machine-wide slots: how many builds and trials run at once, over all processes."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from facet_dagster.errors import SandboxError

_POLL = 0.02
_STRIPES = 512


def default_slots_dir() -> Path:
    """One folder a machine: the engine and the CPUs are shared by everything that runs here."""
    return Path(tempfile.gettempdir()) / "facet-slots"


class Slots:
    """``count`` slots named ``name``, each a file lock that the system frees when its process dies.

    ``check`` is called while one waits, and raises what ends the waiting.
    """

    def __init__(self, folder: Path, name: str, count: int, check: Callable[[], None] = lambda: None) -> None:
        self._check = check
        self._paths = [folder / f"{name}-{n}.lock" for n in range(count)]

    @contextmanager
    def take(self) -> Iterator[int]:
        """Wait for a free slot and hold it; gives its number, which nobody else has meanwhile."""
        with lock_errors(self._paths[0].parent):
            number, lock = self._acquire()
        try:
            yield number
        finally:
            lock.release()

    def _acquire(self) -> tuple[int, FileLock]:
        while True:
            self._check()
            for number, path in enumerate(self._paths):
                lock = FileLock(path)
                try:
                    lock.acquire(timeout=0)
                except Timeout:
                    continue
                return number, lock
            time.sleep(_POLL)


@contextmanager
def one_at_a_time(folder: Path, name: str) -> Iterator[None]:
    """Hold ``name`` (hex digits) against every other process. Few files serve all names."""
    lock = FileLock(folder / f"name-{int(name, 16) % _STRIPES}.lock")
    with lock_errors(folder):
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def lock_errors(folder: Path) -> Iterator[None]:
    """SandboxError for a folder that cannot be made or written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise SandboxError(f"The slot files in {folder} cannot be used ({error}): make the folder writable") from error
