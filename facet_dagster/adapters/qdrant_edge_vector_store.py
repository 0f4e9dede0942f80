"""VectorStore: an embedded Qdrant shard in a folder, for one process at a time."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import qdrant_edge as edge
from filelock import FileLock, Timeout

from facet_dagster.adapters.qdrant_common import ID_KEY, SCROLL, batches, hit_of, nearest, payload_of, point_id
from facet_dagster.errors import VectorStoreError
from facet_dagster.ports import Hit, Point

PROBE = """
import sys, qdrant_edge as edge
shard, offset = edge.EdgeShard.load(sys.argv[1]), None
while True:
    found, offset = shard.scroll(edge.ScrollRequest(offset=offset, limit=1000, with_payload=True, with_vector=True))
    if offset is None:
        break
shard.close()
"""
PANIC = "PanicException"  # of the library's Rust code; no Exception
log = logging.getLogger(__name__)


class QdrantEdgeVectorStore:
    """The shard lies in ``path``. One that is damaged is set aside as ``<path>.damaged`` when it is opened or listed,
    and the store is empty then: ``skill_index`` fills it again from the cached vectors.

    Opening a shard that another process has open damages it, so ``<path>.lock`` is taken before the shard
    is touched, for at most ``wait_seconds``; ``<path>.holder`` says who has it. Every update is in the
    write-ahead log when ``upsert`` returns, so it survives a killed process. Searches are exact.
    """

    def __init__(self, path: Path, *, wait_seconds: float = 60.0) -> None:
        self._path = path
        self._guard = threading.RLock()
        self._open = False
        self._shard: Any = None
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(path.with_name(path.name + ".lock"), thread_local=False)
        self._holder = path.with_name(path.name + ".holder")
        try:
            self._lock.acquire(timeout=wait_seconds)
        except Timeout as error:
            raise VectorStoreError(
                f"The vector store {path} is held by {self._who()} and did not become free in {wait_seconds:g} s; "
                "wait for that process or end it.",
                transient=True,
            ) from error
        try:
            unclean = self._holder.exists()
            self._holder.write_text(f"process {os.getpid()}", encoding="utf-8")
            self._shard = self._load(unclean=unclean)
        except BaseException:
            self._lock.release()
            raise
        self._open = True

    def upsert(self, points: Sequence[Point]) -> None:
        with self._guard:
            self._check()
            for batch in batches(points):
                shard = self._shard or self._create(len(batch[0].vector))
                rows = [
                    edge.Point(id=point_id(p.id), vector=[float(x) for x in p.vector], payload=payload_of(p))
                    for p in batch
                ]
                self._call("write", partial(shard.update, edge.UpdateOperation.upsert_points(rows)))

    def query(
        self, vectors: Sequence[Sequence[float]], *, limit: int, where: Mapping[str, str] | None = None
    ) -> list[list[Hit]]:
        with self._guard:
            self._check()
            if self._shard is None or limit < 1 or not vectors:
                return [[] for _ in vectors]
            conditions: list[Any] = [
                edge.FieldCondition(key=key, match=edge.MatchValue(value)) for key, value in (where or {}).items()
            ]

            def fetch(some: Sequence[Sequence[float]], size: int) -> list[list[Hit]]:
                requests = [
                    edge.QueryRequest(
                        limit=size,
                        query=edge.Query.Nearest([float(x) for x in vector]),
                        filter=edge.Filter(must=conditions) if conditions else None,
                        with_payload=True,
                    )
                    for vector in some
                ]
                found = self._call("search", lambda: self._shard.query_batch(edge.QueryBatchRequest(requests)))
                return [[hit_of(point.score, point.payload) for point in points] for points in found]

            return nearest(fetch, vectors, limit)

    def ids(self) -> set[str]:
        with self._guard:
            self._check()
            try:
                return self._ids()
            except VectorStoreError as error:
                self._drop(error)
                return set()

    def _ids(self) -> set[str]:
        found: set[str] = set()
        offset = None
        while self._shard is not None:
            request = edge.ScrollRequest(offset=offset, limit=SCROLL, with_payload=True)
            records, offset = self._call("read", partial(self._shard.scroll, request))
            found.update(str(record.payload[ID_KEY]) for record in records)
            if offset is None:
                break
        return found

    def delete(self, ids: Sequence[str]) -> None:
        with self._guard:
            self._check()
            if self._shard is not None and ids:
                operation = edge.UpdateOperation.delete_points([point_id(ident) for ident in ids])
                self._call("delete", lambda: self._shard.update(operation))

    def close(self) -> None:
        with self._guard:
            if not self._open:
                return
            self._open = False
            try:
                if self._shard is not None:
                    self._call("close", self._shard.close)
            finally:
                self._shard = None
                self._holder.unlink(missing_ok=True)
                self._lock.release()

    def _load(self, *, unclean: bool) -> Any:
        if not (self._path / "segments").is_dir():
            return None
        try:
            if unclean:
                self._probe()
            return self._call("open", lambda: edge.EdgeShard.load(str(self._path)))
        except VectorStoreError as error:
            self._drop(error)
            return None

    def _probe(self) -> None:
        """A file that is too short ends the process that reads it, so a child reads first where the last one died."""
        done = subprocess.run([sys.executable, "-c", PROBE, str(self._path)], capture_output=True, check=False)
        if done.returncode:
            raise VectorStoreError(f"The vector store {self._path} ends who reads it (exit {done.returncode})")

    def _drop(self, error: VectorStoreError) -> None:
        """Set the damaged shard aside; raises ``error`` where that is not possible either."""
        if self._shard is not None:
            with suppress(VectorStoreError):
                self._call("close", self._shard.close)
        self._shard = None
        aside = self._path.with_name(self._path.name + ".damaged")
        try:
            shutil.rmtree(aside, ignore_errors=True)
            self._path.rename(aside)
        except OSError:
            raise error from None
        log.warning("The vector store was damaged (%s): it is filled again, the old one lies in %s.", error, aside)

    def _create(self, size: int) -> Any:
        def make() -> Any:
            self._path.mkdir(exist_ok=True)
            config = edge.EdgeConfig(vectors=edge.EdgeVectorParams(size, edge.Distance.Cosine), wal_enabled=True)
            shard = edge.EdgeShard.create(str(self._path), config)
            shard.update(edge.UpdateOperation.create_field_index("family", edge.PayloadSchemaType.Keyword))
            return shard

        self._shard = self._call("create", make)
        return self._shard

    def _call(self, what: str, action: Any) -> Any:
        try:
            return action()
        except BaseException as error:  # the library raises its own, undocumented types
            if not isinstance(error, Exception) and type(error).__name__ != PANIC:
                raise
            raise VectorStoreError(
                f"Cannot {what} the vector store {self._path}: {error}. It can be filled again from cached vectors: "
                "delete that folder and run again."
            ) from error

    def _check(self) -> None:
        if not self._open:
            raise VectorStoreError(f"The vector store {self._path} is closed")

    def _who(self) -> str:
        try:
            return self._holder.read_text(encoding="utf-8") or "another process"
        except OSError:
            return "another process"
