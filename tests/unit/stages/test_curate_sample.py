"""Duplicates against brute force: on a made corpus always, on real skills where FACET_SAMPLE names a table of them."""

from __future__ import annotations

import os
import random
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from facet_dagster.domain.skill import Duplicate, Family, Licence, Skill
from facet_dagster.stages.curate.dedup import SIMILAR, duplicates
from facet_dagster.stages.curate.parse import decode, parse

SAMPLE = os.environ.get("FACET_SAMPLE", "")
MOST = 3_000
DENSE = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"  # scripts without blanks


def made() -> list[str]:
    """Originals, and copies of them: the same, reflowed, with 1 to 25 % other words, cut, and put together."""
    chance = random.Random(11)
    words = ["".join(chance.choices("abcdefghijklmnop", k=chance.randint(2, 8))) for _ in range(900)]
    boiler = " ".join(chance.choices(words, k=60))
    texts = [" ".join([boiler, *chance.choices(words, k=chance.randint(5, 500))]) for _ in range(150)]
    for number in range(250):
        parts = chance.choice(texts[:150]).split(" ")
        for _ in range(int(len(parts) * chance.uniform(0, 0.03 if number % 3 else 0.25))):
            parts[chance.randrange(len(parts))] = chance.choice(words)
        joined = chance.choice([" ", "\n", "  "]).join(parts[: chance.randint(len(parts) * 4 // 5, len(parts))])
        texts.append(chance.choice([str, str.upper, str.title])(joined))
    return texts


def real() -> list[str]:
    table = pl.read_parquet(Path(SAMPLE)).head(MOST)
    raws = [raw if raw is not None else (text or "").encode() for raw, text in table.select("raw", "text").iter_rows()]
    return [parse(decode(raw)[0]).body for raw in raws]


def runs_of(body: str) -> set[str]:
    """Runs of five words, written down once more."""
    chunks = re.findall(r"\w+", unicodedata.normalize("NFKC", body).lower())
    words = [word for chunk in chunks for word in re.findall(f"[{DENSE}]|[^{DENSE}]+", chunk)]
    return {" ".join(words[n : n + 5]) for n in range(max(len(words) - 4, 1))}


def brute(bodies: Sequence[str]) -> dict[tuple[int, int], float]:
    """Every pair of Jaccard 0.8 and more."""
    runs = [runs_of(body) for body in bodies]
    order = sorted(range(len(runs)), key=lambda n: len(runs[n]))
    found = {}
    for place, one in enumerate(order):
        for other in order[place + 1 :]:
            if len(runs[one]) < SIMILAR * len(runs[other]):
                break
            common = len(runs[one] & runs[other])
            similarity = common / (len(runs[one]) + len(runs[other]) - common)
            if similarity >= SIMILAR:
                found[min(one, other), max(one, other)] = similarity
    return found


@pytest.mark.parametrize(
    "corpus", [made, pytest.param(real, marks=pytest.mark.skipif(not SAMPLE, reason="FACET_SAMPLE is not set"))]
)
def test_nearly_all_pairs_are_found_and_none_below_the_threshold(corpus: object) -> None:
    bodies: list[str] = corpus()  # type: ignore[operator]
    found = duplicates([_skill(str(number), body) for number, body in enumerate(bodies)])
    truth = brute(bodies)
    equal = [pair for pair, similarity in truth.items() if similarity == 1.0]
    assert len(truth) > 50
    assert len(_met(equal, found)) >= 0.98 * len(equal)
    assert len(_met(list(truth), found)) >= 0.95 * len(truth)
    for ident, double in found.items():
        pair = min(int(ident), int(double.of)), max(int(ident), int(double.of))
        assert double.of not in found
        assert truth.get(pair, 0) >= SIMILAR or double.kind == "near", pair
        if double.kind == "near":
            assert double.similarity == pytest.approx(truth[pair], abs=0.001)


def _met(pairs: Sequence[tuple[int, int]], found: dict[str, Duplicate]) -> list[tuple[int, int]]:
    """Pairs of which not both are kept."""
    return [pair for pair in pairs if any(str(place) in found for place in pair)]


def _skill(ident: str, body: str) -> Skill:
    return Skill(
        id=ident,
        name="",
        title="",
        description="",
        body=body,
        family=Family.DATA,
        licence=Licence(spdx="MIT", allowed=True, evidence="test"),
        source="folder",
        origin=ident,
    )
