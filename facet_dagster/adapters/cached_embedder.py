"""Embedder whose vectors are kept in a file, by text: none is computed twice, whichever process asks."""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from facet_dagster.adapters.file_locks import held
from facet_dagster.domain.ids import digest
from facet_dagster.errors import EmbedderError
from facet_dagster.ports import Embedder, Vectors

MAGIC = b"FVC1"
HEAD = 8  # the magic, then the number of dimensions
KEY_BYTES = 16
CHUNK = 512


class CachedEmbedder:
    """One file in ``folder`` for each name of ``embedder``: records of text hash, checksum and vector, only appended.

    A record that was cut off or damaged counts as missing, so the file survives a killed process. What is missing
    is computed under a lock on the file, a chunk at a time, the longest texts first (equal lengths cost least).
    ``computed`` counts the texts that were computed here. Raises EmbedderError, also when the disk is full.
    """

    def __init__(self, embedder: Embedder, folder: Path) -> None:
        self._embedder = embedder
        self._path = folder / f"{digest(embedder.name)[:16]}.vectors"
        self._lock = self._path.with_suffix(".lock")
        self._guard = threading.RLock()
        self._file = (-1, -1)  # device and inode of what ``_places`` describes
        self._read = 0
        self._size = 0
        self._places: dict[bytes, int] = {}
        self.computed = 0

    @property
    def name(self) -> str:
        return self._embedder.name

    def encode(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return self._embedder.encode(texts)
        keys = [_key(text) for text in texts]
        with self._guard, self._errors():
            self._refresh()
            missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._places}
            ordered = sorted(missing, key=lambda key: (-len(missing[key]), key))
            for start in range(0, len(ordered), CHUNK):
                self._fill({key: missing[key] for key in ordered[start : start + CHUNK]})
            rows = self._records()["vector"][[self._places[key] for key in keys]]
        return np.asarray(rows, dtype=np.float32)

    def _fill(self, missing: dict[bytes, str]) -> None:
        """Compute and append what is still missing once the lock is held."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with held(self._lock):
            self._refresh()
            keys = [key for key in missing if key not in self._places]
            if not keys:
                return
            vectors = self._embedder.encode([missing[key] for key in keys])
            self.computed += len(keys)
            self._append(keys, vectors)
            self._refresh()

    def _append(self, keys: Sequence[bytes], vectors: Vectors) -> None:
        size = vectors.shape[1]
        if self._size and size != self._size:
            raise EmbedderError(f"The embedder gives {size} dimensions and {self._path} holds {self._size}: remove it.")
        rows = np.zeros(len(keys), dtype=_record(size))
        rows["key"] = np.frombuffer(b"".join(keys), dtype=f"V{KEY_BYTES}")
        rows["vector"] = vectors
        rows["check"] = [zlib.crc32(row.tobytes()) for row in rows["vector"]]
        with self._path.open("r+b" if self._size else "wb") as file:
            if not self._size:
                file.write(MAGIC + size.to_bytes(HEAD - len(MAGIC), "little"))
            whole = HEAD + self._read * rows.itemsize  # behind it lies at most what a killed process began
            file.truncate(whole)
            file.seek(whole)
            file.write(rows.tobytes())
            file.flush()
            os.fsync(file.fileno())

    def _refresh(self) -> None:
        """Learn what was appended since the last look, also by others."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            self._forget((-1, -1))
            return
        if (found.st_dev, found.st_ino) != self._file or found.st_size < self._end():
            self._forget((found.st_dev, found.st_ino))
        self._size = self._size or self._dimensions()
        if not self._size:
            return
        total = (found.st_size - HEAD) // _record(self._size).itemsize
        if total <= self._read:
            return
        rows = self._records(total)
        for place in range(self._read, total):
            if zlib.crc32(rows["vector"][place].tobytes()) == rows["check"][place]:
                self._places[rows["key"][place].tobytes()] = place
        self._read = total

    def _end(self) -> int:
        return HEAD + self._read * _record(self._size).itemsize if self._size else 0

    def _forget(self, file: tuple[int, int]) -> None:
        self._file, self._read, self._size = file, 0, 0
        self._places.clear()

    def _dimensions(self) -> int:
        """Of the file; 0 when its head is damaged, so that it is written anew."""
        with self._path.open("rb") as file:
            head = file.read(HEAD)
        return int.from_bytes(head[len(MAGIC) :], "little") if head[: len(MAGIC)] == MAGIC and len(head) == HEAD else 0

    def _records(self, count: int | None = None) -> NDArray[Any]:
        shape = self._read if count is None else count
        return np.memmap(self._path, dtype=_record(self._size), mode="r", offset=HEAD, shape=(shape,))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise EmbedderError(
                f"The vectors in {self._path} cannot be read or written ({error}): free the disk or its rights."
            ) from error


def _record(size: int) -> np.dtype[Any]:
    return np.dtype([("key", f"V{KEY_BYTES}"), ("check", "<u4"), ("vector", "<f4", (size,))])


def _key(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "replace"), digest_size=KEY_BYTES).digest()
