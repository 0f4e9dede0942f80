"""In-memory twins of the ports, shipped so that anyone can test a stage without a service.

The sandbox's twin is in ``memory_sandbox``.
"""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import numpy as np
from pydantic import BaseModel, ValidationError

from facet_dagster.domain.facts import CACHES, EdgeFact, Fact
from facet_dagster.domain.ids import digest
from facet_dagster.errors import Held, InvariantError, LedgerError, MalformedReply, TapeMiss, VectorStoreError
from facet_dagster.ports import AnyFact, Hit, Point, Reply, Vectors


class MemoryLedger:
    """Ledger in a dictionary; claims are locks of this process."""

    def __init__(self) -> None:
        self._facts: dict[tuple[type[Fact], str], Fact] = {}
        self._at: dict[tuple[type[Fact], str], datetime] = {}
        self._locks: dict[str, threading.RLock] = defaultdict(threading.RLock)
        self._guard = threading.Lock()

    def append(self, facts: Iterable[Fact]) -> None:
        with self._guard:
            for fact in facts:
                self._facts.setdefault((type(fact), fact.fact_id), fact)
                self._at.setdefault((type(fact), fact.fact_id), datetime.now(UTC))

    def find(self, kind: type[AnyFact], /, **where: Any) -> list[AnyFact]:
        with self._guard:
            facts = [fact for fact in self._facts.values() if isinstance(fact, kind)]
        return [fact for fact in facts if all(_matches(getattr(fact, k), v) for k, v in where.items())]

    def values(self, kind: type[Fact], /, *columns: str, **where: Any) -> list[tuple[Any, ...]]:
        return [
            tuple(self._at[kind, fact.fact_id] if name == "at" else getattr(fact, name) for name in columns)
            for fact in self.find(kind, **where)
        ]

    def evict(self, kind: type[Fact], *, before: datetime | None = None, **where: Any) -> int:
        if kind not in CACHES:
            raise InvariantError(f"{kind.__name__} is lineage, which is never forgotten")
        doomed = [(kind, fact.fact_id) for fact in self.find(kind, **where)]
        with self._guard:
            old = [key for key in doomed if before is None or self._at[key] < before]
            for key in old:
                del self._facts[key], self._at[key]
        return len(old)

    def total(self, kind: type[Fact], column: str, **where: Any) -> float:
        return sum(getattr(fact, column) or 0.0 for fact in self.find(kind, **where))

    @contextmanager
    def claim(self, name: str, *, wait: bool = True) -> Iterator[None]:
        with self._guard:
            lock = self._locks[name]
        if not lock.acquire(blocking=wait):
            raise Held(f"{name} is claimed by somebody else")
        try:
            yield
        finally:
            lock.release()

    def ancestors(self, ident: str) -> list[tuple[int, str, str, str]]:
        edges = self.find(EdgeFact)
        found: list[tuple[int, str, str, str]] = []
        frontier, seen, depth = [ident], {ident}, 0
        while frontier:
            depth += 1
            layer = [edge for edge in edges if edge.child in frontier]
            found += [(depth, edge.child, edge.parent, edge.kind) for edge in layer]
            frontier = sorted({edge.parent for edge in layer} - seen)
            seen.update(frontier)
        return found


def _matches(actual: Any, wanted: Any) -> bool:
    if isinstance(wanted, list | tuple | set | frozenset):
        return actual in wanted
    return bool(actual == wanted)


class MemoryArtifactStore:
    """Blobs in a dictionary."""

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}

    def put(self, data: bytes) -> str:
        self._blobs[digest(data)] = data
        return digest(data)

    def get(self, sha256: str) -> bytes:
        try:
            return self._blobs[sha256]
        except KeyError:
            raise LedgerError(f"Artifact {sha256[:12]} is not in the store") from None

    def has(self, sha256: str) -> bool:
        return sha256 in self._blobs


Script = Mapping[str, Sequence[Any]] | Callable[[str, Mapping[str, Any], str, int], Any]


class ScriptedLLM:
    """Replies from a script: per call a queue of dicts or models, or a function (call, variables, subject, attempt).

    ``asked`` records what was asked. A call without a scripted reply is a TapeMiss.
    """

    def __init__(self, script: Script) -> None:
        self._script = script
        self._queues = {k: list(v) for k, v in script.items()} if isinstance(script, Mapping) else {}
        self.asked: list[tuple[str, str, int]] = []
        self.variables: list[Mapping[str, Any]] = []
        self._guard = threading.Lock()

    def ask(
        self, call: str, variables: Mapping[str, Any], schema: type[Reply], *, subject: str, attempt: int = 0
    ) -> Reply:
        with self._guard:
            self.asked.append((call, subject, attempt))
            self.variables.append(variables)
            reply = self._next(call, variables, subject, attempt)
        if isinstance(reply, BaseModel):
            reply = reply.model_dump(mode="json")
        try:
            return schema.model_validate(reply)
        except ValidationError as error:
            raise MalformedReply(
                f"{call}: reply does not fit its schema", raw=str(reply), problem=str(error)
            ) from error

    def _next(self, call: str, variables: Mapping[str, Any], subject: str, attempt: int) -> Any:
        if callable(self._script):
            return self._script(call, variables, subject, attempt)
        if not self._queues.get(call):
            raise TapeMiss(f"The script has no reply for call {call} of {subject}")
        return self._queues[call].pop(0)

    def pin(self, name: str, subject: str, compute: Callable[[], list[str]]) -> list[str]:
        del name, subject
        return compute()

    def counters(self) -> dict[str, float]:
        return {"calls": len(self.asked)}

    def stop(self) -> None:
        """Nothing waits here."""


class HashEmbedder:
    """Deterministic bag-of-words vectors: texts that share words are near. For tests only."""

    name = "hash-256"

    def encode(self, texts: Sequence[str]) -> Vectors:
        rows = np.zeros((len(texts), 256), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in re.findall(r"[a-z0-9]+", text.lower()):
                row[int(digest(word)[:8], 16) % 256] += 1.0
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray(rows / np.where(norms == 0, 1, norms), dtype=np.float32)


class MemoryVectorStore:
    """Exact cosine search over a dictionary."""

    def __init__(self) -> None:
        self._points: dict[str, Point] = {}
        self._open = True

    def upsert(self, points: Sequence[Point]) -> None:
        self._check()
        self._points.update((point.id, point) for point in points)

    def query(
        self, vectors: Sequence[Sequence[float]], *, limit: int, where: Mapping[str, str] | None = None
    ) -> list[list[Hit]]:
        self._check()
        chosen = [p for p in self._points.values() if all(p.payload.get(k) == v for k, v in (where or {}).items())]
        return [self._nearest(vector, chosen, limit) for vector in vectors]

    def _nearest(self, vector: Sequence[float], points: Sequence[Point], limit: int) -> list[Hit]:
        hits = [Hit(p.id, _cosine(vector, p.vector), dict(p.payload)) for p in points]
        return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:limit]

    def ids(self) -> set[str]:
        self._check()
        return set(self._points)

    def delete(self, ids: Sequence[str]) -> None:
        self._check()
        for ident in ids:
            self._points.pop(ident, None)

    def close(self) -> None:
        self._open = False

    def _check(self) -> None:
        if not self._open:
            raise VectorStoreError("The vector store is closed")


def _cosine(a: Sequence[float], b: Sequence[float]) -> float:
    if len(a) != len(b):
        raise VectorStoreError(f"Vectors of {len(a)} and {len(b)} dimensions cannot be compared")
    norm = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(np.dot(a, b)) / norm if norm else 0.0
