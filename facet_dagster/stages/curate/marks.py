"""By what a skill's body is compared: its words, their runs of five, and a MinHash signature of these."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from datasketch import MinHash
from numpy.typing import NDArray

from facet_dagster.domain.skill import Skill

SHINGLE = 5
BANDS, ROWS = 21, 6  # finds 99.8 % of the pairs of Jaccard 0.8, and 1.5 % of those of 0.3
PERMUTATIONS = BANDS * ROWS
MOST_WORDS = 300_000  # that are remembered with their hashes

# A word, or one character of a script that is written without blanks.
_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_FACTOR, _MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFF51AFD7ED558CCD)
_HASHES: dict[str, int] = {}
_EMPTY = MinHash(num_perm=PERMUTATIONS, hashfunc=int)

Shingles = NDArray[np.uint64]


class Mark(NamedTuple):
    """``body``: hash of the normalised words (16 bytes); ``rank``: 0 (best sourced) to 7; ``signature``: 504 bytes."""

    body: bytes
    rank: int
    signature: bytes


def mark(skill: Skill) -> Mark:
    """What deduplication needs to know of a skill."""
    words = tokens(skill.body)
    same = blake2b(" ".join(words).encode("utf-8", "replace"), digest_size=16).digest()
    return Mark(same, rank(skill), signature(shingles(words)))


def rank(skill: Skill) -> int:
    """Best sourced is 0: a known licence, then scripts or references, then any other file."""
    facts = skill.facts
    bare, alone = not (facts.scripts or facts.references), facts.files < 2
    return 4 * (not skill.licence.allowed) + 2 * bare + alone


def tokens(body: str) -> list[str]:
    """Words in lower case, without anything between them."""
    return _TOKEN.findall(unicodedata.normalize("NFKC", body).lower())


def shingles(words: Sequence[str]) -> Shingles:
    """Sorted unique 64-bit hashes of all runs of five words; a shorter text is one run."""
    hashes = _word_hashes(words)
    width = min(SHINGLE, max(len(words), 1))
    runs = np.full(max(len(words) - width + 1, 1), width, dtype=np.uint64)
    for place in range(width if words else 0):
        runs = runs * _FACTOR + hashes[place : place + len(runs)]
    runs = (runs ^ (runs >> np.uint64(32))) * _MIX
    return np.unique(runs ^ (runs >> np.uint64(29)))


def _word_hashes(words: Sequence[str]) -> Shingles:
    if len(_HASHES) > MOST_WORDS:
        _HASHES.clear()
    for word in set(words):
        if word not in _HASHES:
            _HASHES[word] = int.from_bytes(blake2b(word.encode("utf-8", "replace"), digest_size=8).digest())
    return np.fromiter(map(_HASHES.__getitem__, words), dtype=np.uint64, count=len(words))


def signature(runs: Shingles) -> bytes:
    """MinHash values, 32 bits each."""
    found = _EMPTY.copy()
    found.update_batch((runs & np.uint64(0xFFFFFFFF)).tolist())
    return np.asarray(found.hashvalues, dtype=np.uint32).tobytes()


def jaccard(one: Shingles, other: Shingles) -> float:
    common = len(np.intersect1d(one, other, assume_unique=True))
    return common / (len(one) + len(other) - common)
