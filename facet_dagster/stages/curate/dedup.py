"""Equal and near duplicates among skills that passed everything else, as joins over a table (paper, section 3.1).

Greedy in order of trust, then of arrival: a skill is a duplicate only of one that is kept, so kept skills are
pairwise different, every duplicate is truly similar to the one it points to, and what arrives later never takes
the place of an equally well sourced skill.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from facet_dagster.domain.outcome import Reason, Rejection, reject
from facet_dagster.domain.skill import Duplicate, Skill
from facet_dagster.stages.curate import marks
from facet_dagster.stages.curate.marks import BANDS, ROWS, Shingles, jaccard, mark

VERSION = "2"
SIMILAR = 0.8
PROMISING = 0.62  # share of equal MinHash values: five standard deviations below what counts

# One skill a row, in the order of arrival: id, content (of the file), body (hash of its words), rank, signature.
SCHEMA = {"id": pl.String, "content": pl.String, "body": pl.Binary, "rank": pl.UInt8, "signature": pl.Binary}

Pair = tuple[bytes, bytes]
_ODD = np.uint64(0x9E3779B97F4A7C15)


def duplicates(skills: Sequence[Skill]) -> dict[str, Duplicate]:
    """Id -> what it is a duplicate of, for skills of unique ids in the order of arrival."""
    rows = [(skill.id, skill.id, *mark(skill)) for skill in skills]
    bodies = {row[2]: skill.body for row, skill in zip(rows, skills, strict=True)}
    table = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    return find(table, lambda wanted: {b: marks.shingles(marks.tokens(bodies[b])) for b in wanted}, {})


def rejection(found: Duplicate) -> Rejection:
    """Why the duplicate is dropped."""
    if found.kind == "near":
        text = f"The body shares {found.similarity:.0%} of its word sequences with {found.of}."
        return reject(Reason.SKILL_NEAR_DUPLICATE, text, similarity=found.similarity)
    return reject(Reason.SKILL_DUPLICATE, f"The body equals that of {found.of}.", kind=found.kind)


def find(
    table: pl.DataFrame,
    shingles_of: Callable[[Iterable[bytes]], Mapping[bytes, Shingles]],
    known: MutableMapping[Pair, float],
) -> dict[str, Duplicate]:
    """Duplicates in a table of SCHEMA.

    ``shingles_of`` gives the shingles of bodies by hash; ``known`` holds Jaccard similarities of pairs of bodies
    (ascending) that were measured before, and gets those that are measured now.
    """
    ordered = table.with_row_index("place").sort("rank", "place")
    firsts = ordered.unique("body", keep="first", maintain_order=True)
    near = _near(firsts, shingles_of, known)
    joined = ordered.join(firsts.select("body", of="id", same="content"), on="body").filter(
        pl.col("id") != pl.col("of")
    )
    found = dict(near)
    for ident, of, content, same in joined.select("id", "of", "content", "same").iter_rows():
        kind = "exact" if content == same else "normalised"
        found[ident] = near.get(of) or Duplicate(of=of, kind=kind, similarity=1.0)
    return found


def _near(
    firsts: pl.DataFrame,
    shingles_of: Callable[[Iterable[bytes]], Mapping[bytes, Shingles]],
    known: MutableMapping[Pair, float],
) -> dict[str, Duplicate]:
    """Near duplicates among different bodies, the most trusted first."""
    ids, bodies = firsts["id"].to_list(), firsts["body"].to_list()
    values = np.frombuffer(b"".join(firsts["signature"]), dtype=np.uint32).reshape(len(ids), BANDS * ROWS)
    shared = _shared_bands(values)
    measure = _Measure(bodies, shingles_of, known)
    measure.expect(shared)
    kept: dict[int, list[int]] = defaultdict(list)
    found: dict[str, Duplicate] = {}
    for place in sorted(shared):
        candidates = sorted({other for band in shared[place] for other in kept[band]})
        best, score = _best(place, candidates, values, measure)
        if score >= SIMILAR:
            found[ids[place]] = Duplicate(of=ids[best], kind="near", similarity=round(score, 3))
            continue
        for band in shared[place]:
            kept[band].append(place)
    return found


def _shared_bands(values: NDArray[np.uint32]) -> dict[int, list[int]]:
    """Row -> the codes of those of its LSH bands in which another row agrees with it."""
    codes: NDArray[np.uint64] = np.tile(np.arange(1, BANDS + 1, dtype=np.uint64), (len(values), 1))
    for column in range(ROWS):
        codes = (codes + values[:, column::ROWS].astype(np.uint64)) * _ODD
        codes = codes ^ (codes >> np.uint64(29))
    rows = pl.DataFrame({"code": codes.ravel(), "row": np.repeat(np.arange(len(values), dtype=np.uint32), BANDS)})
    several = rows.group_by("code").len().filter(pl.col("len") > 1).select("code")
    groups = rows.join(several, on="code").group_by("row").agg("code")
    return dict(groups.iter_rows())


def _best(place: int, candidates: list[int], values: NDArray[np.uint32], measure: _Measure) -> tuple[int, float]:
    best, score = -1, 0.0
    if not candidates:
        return best, score
    estimates = (values[candidates] == values[place]).mean(axis=1)
    for other in np.array(candidates)[estimates >= PROMISING].tolist():
        similarity = measure(place, other)
        if similarity > score:
            best, score = other, similarity
    return best, score


class _Measure:
    """True Jaccard similarity of two rows, measured once for a pair of bodies."""

    def __init__(
        self,
        bodies: Sequence[bytes],
        shingles_of: Callable[[Iterable[bytes]], Mapping[bytes, Shingles]],
        known: MutableMapping[Pair, float],
    ) -> None:
        self._bodies, self._load, self._known = bodies, shingles_of, known
        self._shingles: dict[bytes, Shingles] = {}

    def expect(self, shared: Mapping[int, list[int]]) -> None:
        """Load at once the shingles of rows that were in no measured pair so far, and of those beside them."""
        old = {body for pair in self._known for body in pair}
        fresh = {band for row, bands in shared.items() if self._bodies[row] not in old for band in bands}
        self._shingles.update(
            self._load({self._bodies[row] for row, bands in shared.items() if not fresh.isdisjoint(bands)})
        )

    def __call__(self, one: int, other: int) -> float:
        first, second = self._bodies[one], self._bodies[other]
        pair = (first, second) if first < second else (second, first)
        if pair not in self._known:
            self._shingles.update(self._load({body for body in pair if body not in self._shingles}))
            self._known[pair] = jaccard(self._shingles[first], self._shingles[second])
        return self._known[pair]
