"""A folder of this machine as a SourceTree."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from facet_dagster.domain.ids import digest
from facet_dagster.errors import SourceError

SETTLED_SECONDS = 2.0
SKIPPED = frozenset({".git", "node_modules"})


class FolderTree:
    """``SourceTree`` over ``root``, which is a resolved path."""

    commit = ""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.place = str(root)

    def paths(self) -> Mapping[str, bool]:
        return dict(self._below(""))

    def _below(self, start: str) -> Iterator[tuple[str, bool]]:
        waiting = [start]
        while waiting:
            above = waiting.pop()
            try:
                with os.scandir(self._root / above) as found:
                    entries = list(found)
            except OSError as error:
                text = f"{self._root / above} cannot be listed ({error.strerror}): make it readable, or remove it."
                raise SourceError(text) from error
            for entry in entries:
                path = f"{above}/{entry.name}" if above else entry.name
                if not entry.is_dir(follow_symlinks=False):
                    yield path, entry.is_symlink()
                elif entry.name not in SKIPPED:
                    waiting.append(path)

    def read(self, path: str, cap: int) -> tuple[int, bytes]:
        file = self._root / path
        try:
            return _read(file, cap)
        except OSError as error:
            if not self._root.is_dir():
                text = f"{self.place} vanished while it was read; what was read is kept: bring it back and run again."
                raise SourceError(text) from error
            raise


def folder_state(root: Path, *, now: float) -> str:
    """Digest of names, sizes and times of all files below ``root``: another one when something changed.

    Empty while something changed less than two seconds before ``now`` (seconds since 1970): a file may change again
    within one tick of the clock. Raises SourceError.
    """
    lines, newest = list[list[object]](), 0.0
    for path in sorted(FolderTree(root).paths()):
        try:
            facts = (root / path).lstat()
        except OSError:
            return ""
        newest = max(newest, facts.st_ctime, facts.st_mtime)
        lines.append([path, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns])
    return digest(lines) if newest < now - SETTLED_SECONDS else ""


def _read(file: Path, cap: int) -> tuple[int, bytes]:
    """A pipe or a device is read as an empty file, without waiting for it."""
    if file.is_symlink():
        target = os.fsencode(os.readlink(file))
        return len(target), target
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as stream:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > cap:
            return facts.st_size, b""
        data = stream.read(cap)
        return max(facts.st_size, len(data)), data
