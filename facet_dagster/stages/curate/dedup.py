"""Exact and near duplicates among skills that passed everything else (paper, section 3.1).

Greedy in order of trust: a skill is a duplicate only of one that is kept, so kept skills are pairwise
different and every duplicate is truly similar to the one it points to.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from datasketch import MinHash, MinHashLSH
from numpy.typing import NDArray

from facet_dagster.domain.outcome import Reason, Rejection, reject
from facet_dagster.domain.skill import Skill

SHINGLE = 5
PERMUTATIONS = 128
LSH_THRESHOLD = 0.7  # lower than what counts, so that few true pairs are missed
SIMILAR = 0.8

# A word, or one character of a script that is written without blanks.
_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")

Duplicate = tuple[str, Rejection]


def duplicates(skills: Sequence[Skill]) -> dict[str, Duplicate]:
    """Duplicate's id -> (id of the kept skill, rejection). Ids are unique."""
    found: dict[str, Duplicate] = {}
    exact: dict[bytes, str] = {}
    kept: dict[str, NDArray[np.uint64]] = {}
    index = MinHashLSH(threshold=LSH_THRESHOLD, num_perm=PERMUTATIONS)
    for skill in sorted(skills, key=_trust):
        tokens = _TOKEN.findall(unicodedata.normalize("NFKC", skill.body).lower())
        same = exact.setdefault(_hash(" ".join(tokens), 32), skill.id)
        if same != skill.id:
            found[skill.id] = same, reject(Reason.SKILL_DUPLICATE, f"The body equals that of {same}.")
            continue
        shingles = _shingles(tokens)
        signature = _signature(shingles)
        near, score = _nearest(shingles, index.query(signature), kept)
        if score >= SIMILAR:
            text = f"The body shares {score:.0%} of its word sequences with {near}."
            found[skill.id] = near, reject(Reason.SKILL_NEAR_DUPLICATE, text, similarity=round(score, 3))
            exact[_hash(" ".join(tokens), 32)] = near
            continue
        kept[skill.id] = shingles
        index.insert(skill.id, signature)
    return found


def _trust(skill: Skill) -> tuple[bool, bool, bool, str]:
    """Best sourced first: a known licence, then scripts or references, any other file, then the smallest id."""
    facts = skill.facts
    return not skill.licence.allowed, not (facts.scripts or facts.references), facts.files < 2, skill.id


def _hash(text: str, size: int) -> bytes:
    return blake2b(text.encode("utf-8", "replace"), digest_size=size).digest()


def _shingles(tokens: Sequence[str]) -> NDArray[np.uint64]:
    """Sorted unique 64-bit hashes of all runs of five words."""
    runs = [" ".join(tokens[n : n + SHINGLE]) for n in range(max(len(tokens) - SHINGLE + 1, 1))]
    return np.unique(np.frombuffer(b"".join(_hash(run, 8) for run in runs), dtype=np.uint64))


def _signature(shingles: NDArray[np.uint64]) -> MinHash:
    signature = MinHash(num_perm=PERMUTATIONS, hashfunc=int)
    signature.update_batch(shingles & np.uint64(0xFFFFFFFF))
    return signature


def _nearest(
    shingles: NDArray[np.uint64], candidates: Sequence[str], kept: dict[str, NDArray[np.uint64]]
) -> tuple[str, float]:
    best, score = "", 0.0
    for ident in sorted(candidates):
        other = kept[ident]
        common = len(np.intersect1d(shingles, other, assume_unique=True))
        similarity = common / (len(shingles) + len(other) - common)
        if similarity > score:
            best, score = ident, similarity
    return best, score
