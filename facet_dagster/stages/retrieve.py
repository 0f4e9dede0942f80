"""Stage 2, first half: the skills that a sentence is about, and small groups of them that add to each other.

Two rankings are joined by reciprocal rank: by vectors, which know that words mean the same, and by the words
themselves (BM25), which know that names differ. Measured by ``benchmarks/retrieval.py``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from facet_dagster.domain.outcome import Value
from facet_dagster.domain.skill import Skill, describe
from facet_dagster.ports import Embedder, VectorStore

VERSION = "1"
DEPTH = 200  # of each ranking
POOL = 20  # skills of which a scenario's group is chosen
RANK = 60  # of reciprocal rank fusion: how little the first places differ
K1, B = 1.5, 0.75  # of BM25, its usual values
BODY = 3_000  # characters of a body whose words count
NEAR_IDENTICAL = 0.9  # cosine above which two skills are the same in other words
LIKENESS = 0.4  # share of a group's choice that is being unlike those chosen before

_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")
_COMMON = (
    "an and are as at be been but by can do for from has have how if in into is it its not of on or so such that the"
    " their then there these they this to use used user using was we what when where which who will with you your"
)
_STOP = frozenset(_COMMON.split())


class Found(Value):
    """A skill that was found; ``score`` is the sum of its reciprocal ranks, not comparable between queries."""

    id: str
    score: float


def words(text: str) -> list[str]:
    return [word for word in _TOKEN.findall(text.lower()) if word not in _STOP]


class Lexicon:
    """BM25 over skills: name and description count twice, then the beginning of the body."""

    def __init__(
        self, ids: Sequence[str], families: Sequence[str], terms: Sequence[str], weights: sparse.csr_matrix
    ) -> None:
        self.ids = list(ids)
        self._families = list(families)
        self._terms = {term: n for n, term in enumerate(terms)}
        self._weights = weights  # one row a term, one column a skill

    @classmethod
    def of(cls, skills: Sequence[Skill]) -> Lexicon:
        terms: dict[str, int] = {}
        rows, columns, counts, lengths = list[int](), list[int](), list[int](), list[int]()
        for place, skill in enumerate(skills):
            found = Counter(words(f"{skill.name} {skill.description} " * 2 + skill.body[:BODY]))
            lengths.append(found.total())
            for term, count in found.items():
                rows.append(terms.setdefault(term, len(terms)))
                columns.append(place)
                counts.append(count)
        weights = _bm25(np.array(rows, int), np.array(columns, int), np.array(counts, float), np.array(lengths, float))
        shape = (len(terms), len(skills))
        matrix = sparse.csr_matrix((weights, (rows, columns)), shape=shape, dtype=np.float32)
        return cls([skill.id for skill in skills], [skill.shelf for skill in skills], list(terms), matrix)

    def of_family(self, family: str) -> frozenset[str]:
        """The ids of a family's skills."""
        return frozenset(ident for ident, other in zip(self.ids, self._families, strict=True) if other == family)

    def ranked(self, text: str, limit: int) -> list[str]:
        """At most ``limit`` ids of skills that share a word with ``text``, best first, ties by id."""
        rows = sorted({self._terms[word] for word in words(text) if word in self._terms})
        if not rows:
            return []
        scores = np.asarray(self._weights[rows].sum(axis=0)).ravel()
        best = sorted((-float(scores[n]), self.ids[n]) for n in np.argsort(-scores, kind="stable")[: limit + RANK])
        return [ident for score, ident in best if score < 0][:limit]

    def save(self, path: Path) -> None:
        """One file, replaced whole."""
        aside = path.with_suffix(".new.npz")
        data = self._weights
        ids, families, terms = (np.array(list(text), str) for text in (self.ids, self._families, self._terms))
        weights = {"data": data.data, "indices": data.indices, "indptr": data.indptr, "shape": np.array(data.shape)}
        np.savez(aside, allow_pickle=False, ids=ids, families=families, terms=terms, **weights)
        aside.replace(path)

    @classmethod
    def load(cls, path: Path) -> Lexicon:
        """Raises OSError where there is no file, ValueError for what is none of ours."""
        try:
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
                matrix = sparse.csr_matrix((file["data"], file["indices"], file["indptr"]), shape=tuple(file["shape"]))
                ids, families, terms = (file[name].tolist() for name in ("ids", "families", "terms"))
                return cls(ids, families, terms, matrix)
        except (BadZipFile, EOFError, KeyError) as error:
            raise ValueError(f"{path} holds no words of skills: {error}") from error


def _bm25(
    rows: NDArray[np.int_], columns: NDArray[np.int_], counts: NDArray[np.float64], lengths: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The weight of each (term, skill) that occurs."""
    if not len(rows):
        return counts
    documents = np.bincount(rows)
    rarity = np.log1p((len(lengths) - documents + 0.5) / (documents + 0.5))
    stretch = K1 * (1 - B + B * lengths / lengths.mean())
    weights: NDArray[np.float64] = rarity[rows] * counts * (K1 + 1) / (counts + stretch[columns])
    return weights


def search(
    texts: Sequence[str],
    *,
    vectors: VectorStore,
    embedder: Embedder,
    lexicon: Lexicon,
    limit: int,
    where: Mapping[str, str] | None = None,
    among: frozenset[str] | None = None,
) -> list[list[Found]]:
    """For each text at most ``limit`` skills, best first. ``among`` are the ids that ``where`` lets through.

    Raises EmbedderError, VectorStoreError.
    """
    if not texts:
        return []
    near = vectors.query(embedder.encode(texts).tolist(), limit=DEPTH, where=where)
    found = []
    for text, hits in zip(texts, near, strict=True):
        said = lexicon.ranked(text, DEPTH if among is None else len(lexicon.ids))
        rankings = ([hit.id for hit in hits], [ident for ident in said if among is None or ident in among][:DEPTH])
        found.append(fused(rankings)[:limit])
    return found


def fused(rankings: Sequence[Sequence[str]]) -> list[Found]:
    """Reciprocal rank fusion; ties by id."""
    scores = Counter[str]()
    for ranking in rankings:
        for place, ident in enumerate(ranking, 1):
            scores[ident] += 1 / (RANK + place)  # type: ignore[assignment] # a Counter adds any number
    return [
        Found(id=ident, score=round(score, 6)) for ident, score in sorted(scores.items(), key=lambda i: (-i[1], i[0]))
    ]


def complementary(
    text: str, skills: Sequence[Skill], *, embedder: Embedder, size: int, first: Skill | None = None
) -> list[tuple[Skill, float]]:
    """A group of at most ``size`` skills around ``text``: each near to it and unlike those chosen before.

    ``skills`` are those found, ``first`` is in the group whatever its place. With each skill comes its greatest
    cosine with those before it (1.0 for the first). What is nearly the same as a chosen one is never added.
    Raises EmbedderError.
    """
    pool = [first, *(skill for skill in skills if skill.id != first.id)] if first else list(skills)
    if not pool or size < 1:
        return []
    rows = embedder.encode([text, *(describe(s.name, s.description, s.body) for s in pool)])
    near, alike = rows[1:] @ rows[0], rows[1:] @ rows[1:].T
    chosen, likeness = [0 if first else int(np.argmax(np.round(near, 4)))], [1.0]
    while len(chosen) < size:
        closest = alike[:, chosen].max(axis=1)
        worth = (1 - LIKENESS) * near - LIKENESS * closest
        worth[closest >= NEAR_IDENTICAL] = -np.inf
        worth[chosen] = -np.inf
        best = int(np.argmax(np.round(worth, 4)))
        if not np.isfinite(worth[best]):
            break
        chosen.append(best)
        likeness.append(round(float(closest[best]), 3))
    return [(pool[n], cosine) for n, cosine in zip(chosen, likeness, strict=True)]


def partners(
    skill: Skill,
    texts: Sequence[str],
    skills: Mapping[str, Skill],
    *,
    vectors: VectorStore,
    embedder: Embedder,
    lexicon: Lexicon,
    limit: int,
) -> list[str]:
    """At most ``limit`` lines ``<skill id> <cosine>``: what the scenarios ``texts`` need beside ``skill``.

    The best partner of each scenario comes first, then the second best of each, and so on; ``skills`` are those that
    may be partners. Raises EmbedderError, VectorStoreError.
    """
    groups = []
    for hits in zip(texts, search(texts, vectors=vectors, embedder=embedder, lexicon=lexicon, limit=POOL), strict=True):
        pool = [skills[hit.id] for hit in hits[1] if hit.id in skills]
        groups.append(complementary(hits[0], pool, embedder=embedder, size=limit + 1, first=skill)[1:])
    ranked = (one for layer in zip_longest(*groups) for one in layer if one)
    best: dict[str, float] = {}
    for partner, cosine in ranked:
        best.setdefault(partner.id, cosine)
    return [f"{ident} {cosine:.3f}" for ident, cosine in list(best.items())[:limit]]
