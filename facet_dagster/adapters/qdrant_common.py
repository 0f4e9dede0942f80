"""What both Qdrant adapters share: ids, payload and an order that does not depend on the engine."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from facet_dagster.ports import Hit, Point

ID_KEY = "_id"
BATCH = 500
SCROLL = 1_000
_DIGITS = 6  # scores that differ less are ties: engines differ in the last digits


def point_id(ident: str) -> str:
    """Qdrant takes numbers or UUIDs only; the text id travels in the payload."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, ident))


def payload_of(point: Point) -> dict[str, str]:
    return {**point.payload, ID_KEY: point.id}


def hit_of(score: float, payload: Mapping[str, Any] | None) -> Hit:
    rest = {str(key): str(value) for key, value in (payload or {}).items()}
    return Hit(rest.pop(ID_KEY), round(float(score), _DIGITS), rest)


def batches(points: Sequence[Point]) -> Iterator[list[Point]]:
    """Batches of unique points; of two with the same id the later one counts."""
    unique = list({point.id: point for point in points}.values())
    for start in range(0, len(unique), BATCH):
        yield unique[start : start + BATCH]


def nearest(
    fetch: Callable[[Sequence[Sequence[float]], int], list[list[Hit]]], vectors: Sequence[Sequence[float]], limit: int
) -> list[list[Hit]]:
    """The first ``limit`` hits of each query, ties by id.

    Engines cut ties in an order of their own, so more is fetched for a query while a tie reaches over its last hit.
    """
    size = limit + 1
    found = fetch(vectors, size)
    while tied := [n for n, hits in enumerate(found) if len(hits) == size and hits[-1].score == hits[limit - 1].score]:
        size *= 2
        for place, hits in zip(tied, fetch([vectors[place] for place in tied], size), strict=True):
            found[place] = hits
    return [_ordered(hits)[:limit] for hits in found]


def _ordered(hits: Iterable[Hit]) -> list[Hit]:
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))
