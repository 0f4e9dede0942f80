"""Finished tasks that are near copies of another: by instruction, by solution, or by tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from facet_dagster.domain.archive import unpack
from facet_dagster.domain.ids import digest
from facet_dagster.ports import ArtifactStore
from facet_dagster.stages.curate import dedup, marks


class Texts(NamedTuple):
    """What a task is made of."""

    instruction: str
    solution: str
    tests: str


class Alike(NamedTuple):
    """``of`` is the task that is kept; ``similarity`` the Jaccard similarity of word 5-grams of ``part``."""

    of: str
    part: str
    similarity: float


_FILES = Texts("instruction.md", "solution/solve.sh", "tests/checks.py")


def texts_of(package: str, store: ArtifactStore) -> Texts:
    """The texts of a package, by the address of its archive."""
    members = unpack(store.get(package))
    found = [members[path].data.decode("utf-8", "replace") if path in members else "" for path in _FILES]
    return Texts(*found)


def near_duplicates(tasks: Mapping[str, Texts]) -> dict[str, Alike]:
    """Task -> what it repeats. Of two the first by key is kept, and it is named."""
    found, kept = dict[str, Alike](), sorted(tasks)
    for place, part in enumerate(Texts._fields):
        for key, alike in _by_text({key: tasks[key][place] for key in kept}, part).items():
            found[key] = alike
        kept = [key for key in kept if key not in found]
    return {key: _kept(alike, found) for key, alike in found.items()}


def _kept(alike: Alike, found: Mapping[str, Alike]) -> Alike:
    """What is named may itself repeat another task by another part: then that one is kept."""
    while alike.of in found:
        alike = alike._replace(of=found[alike.of].of)
    return alike


def _by_text(texts: Mapping[str, str], part: str) -> dict[str, Alike]:
    words = {key: marks.tokens(text) for key, text in texts.items() if text.strip()}
    runs = {key: marks.shingles(tokens) for key, tokens in words.items()}
    bodies = {key: bytes.fromhex(digest(" ".join(tokens))[:32]) for key, tokens in words.items()}
    of = {body: key for key, body in bodies.items()}
    rows = [(key, digest(texts[key]), bodies[key], 0, marks.signature(runs[key])) for key in sorted(words)]
    if not rows:
        return {}
    table = pl.DataFrame(rows, schema=dedup.SCHEMA, orient="row")
    twins = dedup.find(table, lambda wanted: {body: runs[of[body]] for body in wanted}, {})
    return {key: Alike(twin.of, part, twin.similarity) for key, twin in twins.items()}
