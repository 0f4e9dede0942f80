"""One file with the whole ledger and every artifact, and back.

A gzipped tar: ``facet-backup.json`` (what it is), ``ledger/<table>`` (rows as PostgreSQL's COPY text),
``artifacts/<sha256>``, and last ``whole.json`` (what must have been read by then). Rows come from one snapshot.
Artifacts are stored before any row names them, so those that are listed after the snapshot are all that it names.
Settings, keys, Dagster's own tables, vectors and images are not in it: the first two are yours, the others are made
again.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import tarfile
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO

from pydantic import ValidationError

from facet_dagster import __version__
from facet_dagster.adapters.fsspec_artifact_store import FsspecArtifactStore
from facet_dagster.adapters.ledger_copy import LedgerCopy, Snapshot
from facet_dagster.domain.ids import digest
from facet_dagster.domain.outcome import Value
from facet_dagster.errors import ConfigError, LedgerError

FORMAT = 1
_HEAD, _END = "facet-backup.json", "whole.json"
_MEMBER = re.compile(r"(ledger|artifacts)/([a-z_0-9]+)")
_NOTE_BYTES = 2**20
_BLOCK = 2**20


class Head(Value):
    """``tables`` maps each table to its columns; ``revision`` is their migration."""

    format: int
    project: str
    made: str
    revision: str
    tables: dict[str, list[str]]


class Rows(Value):
    """One table: how many rows, and the sha256 of their text."""

    rows: int
    sha256: str


class Whole(Value):
    """What a file holds in full. ``unread`` are artifacts that the ledger names and that could not be read."""

    tables: dict[str, Rows]
    artifacts: int
    bytes: int
    unread: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables.values())


def backup(ledger: LedgerCopy, store: FsspecArtifactStore, target: Path) -> tuple[Path, Whole]:
    """Write ``target``, or a dated file in it where it is a folder; it appears when it is whole.

    What cannot be read of the artifacts is left out and named. Raises LedgerError, ConfigError.
    """
    file = target / time.strftime("facet-%Y%m%d-%H%M%S.tar.gz", time.gmtime()) if target.is_dir() else target
    if not file.absolute().parent.is_dir():
        raise ConfigError(f"There is no folder {file.absolute().parent}: make it, or name another file")
    aside = file.with_name(f".{file.name}.{os.getpid()}.new")
    try:
        with aside.open("xb") as raw:
            with (
                gzip.GzipFile("", "wb", compresslevel=1, fileobj=raw) as packed,
                tarfile.open(fileobj=packed, mode="w|") as tar,
                ledger.snapshot() as snapshot,
            ):
                whole = _write(tar, snapshot, store, file.absolute().parent)
            raw.flush()
            os.fsync(raw.fileno())
        aside.replace(file)
    except OSError as error:
        raise LedgerError(f"The backup {file} cannot be written ({error.strerror}): nothing is kept of it") from error
    finally:
        aside.unlink(missing_ok=True)
    return file, whole


def _write(tar: tarfile.TarFile, snapshot: Snapshot, store: FsspecArtifactStore, folder: Path) -> Whole:
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    head = Head(format=FORMAT, project=__version__, made=made, revision=snapshot.revision, tables=dict(snapshot.tables))
    _add(tar, _HEAD, head.model_dump_json().encode())
    tables = {table: _add_table(tar, snapshot, table, folder) for table in snapshot.tables}
    named, count, size, unread = snapshot.artifacts(), 0, 0, list[str]()
    for blob in sorted(store.each(), key=lambda blob: blob.sha256):
        try:
            data = store.get(blob.sha256)  # its hash is checked
        except LedgerError:
            unread.append(blob.sha256)
            continue
        _add(tar, f"artifacts/{blob.sha256}", data)
        named.discard(blob.sha256)
        count, size = count + 1, size + len(data)
    whole = Whole(tables=tables, artifacts=count, bytes=size, unread=tuple(sorted(named | set(unread))))
    _add(tar, _END, whole.model_dump_json().encode())
    return whole


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o600
    tar.addfile(info, io.BytesIO(data))


def _add_table(tar: tarfile.TarFile, snapshot: Snapshot, table: str, folder: Path) -> Rows:
    """By way of a file, since a tar wants the size first."""
    with tempfile.TemporaryFile(dir=folder) as rows:
        count = snapshot.copy(table, rows)
        info = tarfile.TarInfo(f"ledger/{table}")
        info.size, info.mode = rows.tell(), 0o600
        rows.seek(0)
        sha256 = _hash(rows)
        rows.seek(0)
        tar.addfile(info, rows)
    return Rows(rows=count, sha256=sha256)


def _hash(file: IO[bytes]) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def restore(file: Path, ledger: LedgerCopy, store: FsspecArtifactStore, work: Path) -> Whole:
    """Read the whole file, storing its artifacts, and then fill the ledger, which must be empty, all or nothing.

    Artifacts that lie there already stay. ``work`` is a folder for the rows meanwhile. Raises ConfigError, LedgerError.
    """
    ledger.check_empty()
    with tempfile.TemporaryDirectory(dir=work, prefix="restore-") as name, _file_errors(file):
        folder = Path(name)
        with tarfile.open(file, "r|gz") as tar:
            head, whole = _read(tar, file, store, folder)

        def rows(table: str) -> BinaryIO:
            return (folder / table).open("rb")

        ledger.load(head.revision, head.tables, rows)
    return whole


def _read(tar: tarfile.TarFile, file: Path, store: FsspecArtifactStore, folder: Path) -> tuple[Head, Whole]:
    members = iter(tar)
    head = _head(tar, next(members, None), file)
    read: dict[str, str] = {}
    artifacts = 0
    for member in members:
        content = tar.extractfile(member)
        if content is None or (member.name != _END and not _MEMBER.fullmatch(member.name)):
            raise ConfigError(f"{file} holds {member.name!r}, which no backup does")
        if member.name == _END:
            whole = Whole.model_validate_json(content.read(64 * _NOTE_BYTES))
            if artifacts != whole.artifacts or read != {name: rows.sha256 for name, rows in whole.tables.items()}:
                raise ConfigError(f"{file} is damaged: it holds other rows or artifacts than it says")
            return head, whole
        kind, _, name = member.name.partition("/")
        if kind == "ledger" and name in head.tables:
            read[name] = _keep(content, folder / name)
        else:
            _store(content.read(), name, file, store)
            artifacts += 1
    raise EOFError


def _head(tar: tarfile.TarFile, member: tarfile.TarInfo | None, file: Path) -> Head:
    if member is None or member.name != _HEAD:
        raise ConfigError(f"{file} is no backup of this project")
    content = tar.extractfile(member)
    data = json.loads(content.read(_NOTE_BYTES)) if content else {}
    if data.get("format") != FORMAT:
        raise ConfigError(f"{file} has format {data.get('format')}, this version reads {FORMAT}: use a newer one")
    return Head.model_validate(data)


def _keep(content: IO[bytes], target: Path) -> str:
    sha256 = hashlib.sha256()
    with target.open("xb") as rows:
        while block := content.read(_BLOCK):
            rows.write(block)
            sha256.update(block)
    return sha256.hexdigest()


def _store(data: bytes, name: str, file: Path, store: FsspecArtifactStore) -> None:
    if digest(data) != name:
        raise ConfigError(f"{file} is damaged: the artifact {name[:12]} in it has another content")
    store.put(data)


@contextmanager
def _file_errors(file: Path) -> Iterator[None]:
    """What is wrong with the file, in one sentence; the ledger is untouched then."""
    try:
        yield
    except EOFError as error:
        raise ConfigError(f"{file} ends too early: copy it again; the ledger was not touched") from error
    except (tarfile.TarError, zlib.error, ValidationError, json.JSONDecodeError) as error:
        raise ConfigError(f"{file} is damaged, or no backup of this project; the ledger was not touched") from error
    except OSError as error:
        why = error.strerror or "it is no gzip file"
        raise ConfigError(f"{file} cannot be read, or its content not be written here: {why}") from error
