"""Where vectors are found again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Point:
    """A vector with an id (any text) and flat text payload."""

    id: str
    vector: Sequence[float]
    payload: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Hit:
    """A found point; ``score`` is the cosine."""

    id: str
    score: float
    payload: Mapping[str, str]


class VectorStore(Protocol):
    """One collection, cosine distance. Raises VectorStoreError."""

    def upsert(self, points: Sequence[Point]) -> None: ...

    def query(
        self, vectors: Sequence[Sequence[float]], *, limit: int, where: Mapping[str, str] | None = None
    ) -> list[list[Hit]]:
        """For each vector the ``limit`` nearest points whose payload equals ``where``, best first, ties by id."""
        ...

    def ids(self) -> set[str]: ...

    def delete(self, ids: Sequence[str]) -> None: ...

    def close(self) -> None:
        """Release files and locks; the object is not usable afterwards."""
        ...
