"""Which texts repeat a task of a benchmark: by a run of words, or by what they mean.

A run of 13 words that a text shares with a benchmark is the measure that training sets are commonly held to (Brown et
al. 2020, appendix C). Texts in other words are found as nearest neighbours of their embeddings.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from facet_dagster.domain.outcome import Value
from facet_dagster.ports import Embedder

VERSION = "1"
RUN = 13  # words
SHORTEST = 6  # words of a benchmark's text that is looked for as a whole, being shorter than a run
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")


@dataclass(frozen=True)
class Item:
    """One task of a benchmark: where it stands, and what it asks for."""

    name: str
    text: str


class Match(Value):
    """``subject`` repeats ``benchmark``.

    ``score`` is the share of the subject's runs that are the benchmark's, or the cosine; ``evidence`` is the first run
    that both hold, or the beginning of the benchmark's text.
    """

    subject: str
    benchmark: str
    how: Literal["words", "meaning"]
    score: float
    evidence: str


@dataclass
class WordIndex:
    """Finds runs of words of ``items``. Deterministic, and cheap: one pass over a text."""

    items: Sequence[Item]
    _runs: dict[int, dict[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for place, item in enumerate(self.items):
            words = words_of(item.text)
            width = min(RUN, len(words))
            if width >= SHORTEST:
                known = self._runs.setdefault(width, {})
                for run in _runs(words, width):
                    known.setdefault(run, place)

    def match(self, subject: str, text: str) -> Match | None:
        """The item that shares most runs with ``text``; None when none shares any."""
        words, best = words_of(text), None
        for width in sorted(self._runs, reverse=True):
            shared: dict[int, list[str]] = {}
            runs = list(_runs(words, width))
            for run in runs:
                if run in self._runs[width]:
                    shared.setdefault(self._runs[width][run], []).append(run)
            for place, found in shared.items():
                share = round(len(found) / len(runs), 4)
                if best is None or share > best.score:
                    name = self.items[place].name
                    best = Match(subject=subject, benchmark=name, how="words", score=share, evidence=found[0])
        return best


def words_of(text: str) -> list[str]:
    """Words in lower case, without anything between them; a character of a script without blanks is a word."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).lower())


def _runs(words: Sequence[str], width: int) -> Iterator[str]:
    return (" ".join(words[place : place + width]) for place in range(len(words) - width + 1))


def neighbours(texts: Mapping[str, str], items: Sequence[Item], embedder: Embedder) -> dict[str, tuple[Item, float]]:
    """Each text's nearest item, and their cosine. Raises EmbedderError."""
    if not texts or not items:
        return {}
    rows = embedder.encode([*texts.values(), *(item.text for item in items)])
    ours, theirs = rows[: len(texts)], rows[len(texts) :]
    found = {}
    for subject, row in zip(texts, ours, strict=True):
        cosines = theirs @ row
        best = int(np.argmax(cosines))
        found[subject] = (items[best], round(float(cosines[best]), 4))
    return found


def by_meaning(nearest: Mapping[str, tuple[Item, float]], same: float) -> list[Match]:
    """Those of the neighbours that are at least as near as ``same`` (cosine)."""
    return [
        Match(subject=subject, benchmark=item.name, how="meaning", score=cosine, evidence=item.text[:300])
        for subject, (item, cosine) in nearest.items()
        if cosine >= same
    ]
