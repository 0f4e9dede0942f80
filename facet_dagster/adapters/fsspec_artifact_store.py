"""Content-addressed blobs in a folder, or in any place that fsspec reaches."""

from __future__ import annotations

import errno
import os
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from facet_dagster.domain.ids import digest
from facet_dagster.errors import ConfigError, LedgerError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SHA256 = re.compile(r"[0-9a-f]{64}")
_STALE_SECONDS = 3600.0


@dataclass(frozen=True)
class Blob:
    """``size`` in bytes; ``used`` is when it was stored last, in seconds since the epoch."""

    sha256: str
    size: int
    used: float


class FsspecArtifactStore:
    """``ArtifactStore`` at ``url``: a folder (default of fsspec), ``s3://bucket/prefix``, ``memory://`` and so on.

    A blob lies at ``ab/cd/<sha256>`` and appears there complete or not at all: a local one is written to
    ``tmp/`` and renamed, others rely on the store's whole-object writes. Raises ConfigError when the URL
    names a protocol whose package is missing. ``sweep`` removes what killed writers left.
    """

    def __init__(self, url: str, *, sweep: bool = True) -> None:
        self._url = url
        try:
            self._files, root = url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise ConfigError(f"The artifact store {url} cannot be opened: {error}") from error
        self._root = str(root).rstrip("/")
        self._local = isinstance(self._files, LocalFileSystem)
        if self._local and sweep:
            self._sweep()

    def put(self, data: bytes) -> str:
        sha256 = digest(data)
        path = self._path(sha256)
        with self._store_errors(f"write {sha256[:12]}"):
            if self._size(path) == len(data) and self._touched(path):
                return sha256
            if self._local:
                self._write_local(Path(path), data)
            else:
                self._files.pipe_file(path, data)
        return sha256

    def get(self, sha256: str) -> bytes:
        with self._store_errors(f"read {sha256[:12]}"):
            data = self._read(sha256)
        if data is None:
            raise LedgerError(f"Artifact {sha256[:12]} is not in the store {self._url}")
        if digest(data) != sha256:
            raise LedgerError(
                f"Artifact {sha256} in {self._url} is damaged: its content has another hash. "
                "Delete the file and run its stage again."
            )
        return data

    def has(self, sha256: str) -> bool:
        if not _SHA256.fullmatch(sha256):
            return False
        with self._store_errors(f"look for {sha256[:12]}"):
            return self._size(self._path(sha256)) is not None

    def each(self) -> Iterator[Blob]:
        """Everything that lies here, in no order."""
        with self._store_errors("list"):
            if self._local:
                yield from _below(Path(self._root))
                return
            for path, info in self._files.find(self._root, detail=True).items():
                if _SHA256.fullmatch(name := path.rpartition("/")[2]):
                    yield Blob(name, int(info["size"]), time.time())

    def remove(self, sha256: str, before: float) -> bool:
        """Remove a blob that nobody stored again since ``before`` (seconds since the epoch); gives whether it went.

        It is set aside first and then looked at once more: ``put`` renews the time of what it finds.
        """
        path, aside = Path(self._path(sha256)), Path(self._root, "tmp", f"old-{sha256}")
        if not self._local:
            return False
        with self._store_errors(f"remove {sha256[:12]}"):
            aside.parent.mkdir(parents=True, exist_ok=True)
            path.rename(aside)
            if aside.stat().st_mtime >= before:
                aside.rename(path)
                return False
            aside.unlink()
            return True

    def _touched(self, path: str) -> bool:
        """Whether the blob is still there; its time is now that of its last use. Others keep no such time."""
        if self._local:
            try:
                os.utime(path)
            except FileNotFoundError:
                return False
            except OSError:  # it belongs to somebody else
                return True
        return True

    def _path(self, sha256: str) -> str:
        return f"{self._root}/{sha256[:2]}/{sha256[2:4]}/{sha256}"

    def _read(self, sha256: str) -> bytes | None:
        if not _SHA256.fullmatch(sha256):
            return None
        try:
            return bytes(self._files.cat_file(self._path(sha256)))
        except FileNotFoundError:
            return None

    def _size(self, path: str) -> int | None:
        try:
            return int(self._files.size(path))
        except FileNotFoundError:
            return None

    def _write_local(self, path: Path, data: bytes) -> None:
        temporary = Path(self._root, "tmp", uuid.uuid4().hex)
        temporary.parent.mkdir(parents=True, exist_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def _sweep(self) -> None:
        """Remove what killed writers left in ``tmp/``."""
        for left in Path(self._root, "tmp").glob("*"):
            with suppress(OSError):
                if time.time() - left.stat().st_mtime > _STALE_SECONDS:
                    left.unlink()

    @contextmanager
    def _store_errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in _FULL:
                raise LedgerError(
                    f"The artifact store {self._url} is full, or over its quota ({error.strerror}): "
                    "free space, then run again; nothing half-written is kept."
                ) from error
            raise self._failed(doing, error, transient=not isinstance(error, PermissionError)) from error
        except Exception as error:  # every fsspec backend has errors of its own
            raise self._failed(doing, error, transient=False) from error

    def _failed(self, doing: str, error: Exception, *, transient: bool) -> LedgerError:
        what = f"{type(error).__name__}: {error}"
        return LedgerError(f"The artifact store {self._url} cannot {doing}: {what}", transient=transient)


def _below(root: Path) -> Iterator[Blob]:
    for path in root.glob("[0-9a-f][0-9a-f]/[0-9a-f][0-9a-f]/*"):
        if _SHA256.fullmatch(path.name) and path.is_file():
            stat = path.stat()
            yield Blob(path.name, stat.st_size, stat.st_mtime)
