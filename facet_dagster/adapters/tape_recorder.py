"""Appends to a tape while a live run goes on; several threads and processes may share one file."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path
from typing import BinaryIO

from facet_dagster.adapters.tape import Key, TapeEntry, TapeMeta, TapePin, line, read_lines
from facet_dagster.errors import ConfigError


class TapeRecorder:
    """Writes each entry once, whole and flushed to the disk, under a lock on the file itself."""

    def __init__(self, path: Path, meta: TapeMeta) -> None:
        self._path = path
        self._meta = meta
        self._seen: dict[Key, TapeEntry] = {}
        self._read_to = 0
        self._guard = threading.Lock()

    def append(self, entry: TapeEntry) -> None:
        """Add ``entry`` unless its key is there already; a pin with new values is added, and then counts.

        Raises ConfigError when the file cannot be written or is damaged.
        """
        try:
            with self._guard, self._open() as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # ends with the file
                self._catch_up(file)
                known = self._seen.get(entry.key)
                if known is None or (isinstance(entry, TapePin) and known != entry):
                    self._write(file, entry)
        except OSError as error:
            raise ConfigError(
                f"The tape {self._path} cannot be written ({error.strerror}): point FACET_RECORD elsewhere."
            ) from error

    def _open(self) -> BinaryIO:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return self._path.open("a+b")

    def _catch_up(self, file: BinaryIO) -> None:
        """Read what others added; cut a last line whose writer died; start an empty file with the meta line."""
        if file.seek(0, os.SEEK_END) < self._read_to:
            self._seen.clear()
            self._read_to = 0
        file.seek(self._read_to)
        data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        if not whole and not self._read_to and data and not line(self._meta).encode().startswith(data[:5]):
            raise ConfigError(f"{self._path} is no tape and is left alone: point FACET_RECORD to a new file.")
        for entry in read_lines(whole, self._path):
            self._seen[entry.key] = entry
        self._read_to += len(whole)
        if whole != data:
            file.truncate(self._read_to)
        if not self._read_to:
            self._write(file, self._meta)

    def _write(self, file: BinaryIO, entry: TapeEntry) -> None:
        data = line(entry).encode()
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
        self._seen[entry.key] = entry
        self._read_to += len(data)
