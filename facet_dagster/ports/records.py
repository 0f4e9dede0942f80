"""What is kept: blobs, and the lineage of everything."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from facet_dagster.domain.facts import Fact

Reply = TypeVar("Reply", bound=BaseModel)
AnyFact = TypeVar("AnyFact", bound=Fact)


class ArtifactStore(Protocol):
    """Content-addressed blobs. Raises LedgerError."""

    def put(self, data: bytes) -> str:
        """Store and return the sha256 (64 hex digits)."""
        ...

    def get(self, sha256: str) -> bytes: ...

    def has(self, sha256: str) -> bool: ...


class Ledger(Protocol):
    """Append-only lineage. Raises LedgerError."""

    def append(self, facts: Iterable[Fact]) -> None:
        """Store all or none; facts whose id is there already are left as they are."""
        ...

    def find(self, kind: type[AnyFact], /, **where: Any) -> list[AnyFact]:
        """Facts whose columns equal ``where`` (a list or set means "in"), in the order of appending."""
        ...

    def values(self, kind: type[Fact], /, *columns: str, **where: Any) -> list[tuple[Any, ...]]:
        """Plain columns, or ``at`` (when appended, aware), of the facts that ``find`` would give; cheaper for many."""
        ...

    def total(self, kind: type[Fact], column: str, **where: Any) -> float:
        """Sum of a number column over the facts that ``find`` would give; missing numbers count as 0."""
        ...

    def evict(self, kind: type[Fact], *, before: datetime | None = None, **where: Any) -> int:
        """Forget facts that are a cache and no lineage, appended ``before`` (aware); gives how many.

        Raises InvariantError for any other class than ReplyFact: lineage is never forgotten.
        """
        ...

    def claim(self, name: str, *, wait: bool = True) -> AbstractContextManager[None]:
        """Hold ``name`` against every other process, until this one dies; Held if it is taken and not waited for."""
        ...

    def ancestors(self, ident: str) -> list[tuple[int, str, str, str]]:
        """Edges (depth, child, parent, kind) from ``ident`` up to its sources, nearest first."""
        ...
