"""Locks that the system frees when a process dies, on files that come and go."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from facet_dagster.errors import SandboxError

SHARED, ALONE = fcntl.LOCK_SH, fcntl.LOCK_EX


def locked(path: Path, mode: int, *, wait: bool = True) -> int | None:
    """Descriptor of ``path``, created where it is absent, holding the lock; None when it is taken and not waited for.

    The lock is on the file that has this name now, also where somebody removed an older one meanwhile. Closing
    the descriptor frees it.
    """
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(file, mode if wait else mode | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return None
        except BaseException:
            os.close(file)
            raise
        if _is_still(file, path):
            return file
        os.close(file)


@contextmanager
def held(path: Path, mode: int = ALONE) -> Iterator[None]:
    """Hold the lock for the block; waits for it."""
    file = locked(path, mode)
    assert file is not None
    try:
        yield
    finally:
        os.close(file)


@contextmanager
def lock_errors(folder: Path) -> Iterator[None]:
    """SandboxError for a folder that cannot be made or written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise SandboxError(f"The lock files in {folder} cannot be used ({error}): make the folder writable") from error


def _is_still(file: int, path: Path) -> bool:
    try:
        return os.fstat(file).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False
