"""Stage 1, last step: the vectors by which related skills are found (paper, section 3.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from facet_dagster.domain.skill import IndexEntry, Skill, describe
from facet_dagster.ports import Embedder, Point, VectorStore

VERSION = "2"
BATCH = 512


def entries(skills: Iterable[Skill]) -> list[IndexEntry]:
    """What is stored of each skill."""
    return [IndexEntry(id=s.id, text=index_text(s), family=s.shelf, source=s.source) for s in skills]


def index_text(skill: Skill) -> str:
    """What a skill is found by: name, description and headings, at most about 100 tokens."""
    return describe(skill.name, skill.description, skill.body)


def index(items: Sequence[IndexEntry], *, embedder: Embedder, vectors: VectorStore) -> int:
    """Embed and store ``items``; returns how many. Doing it again changes nothing.

    Raises EmbedderError, VectorStoreError.
    """
    for start in range(0, len(items), BATCH):
        batch = items[start : start + BATCH]
        rows = embedder.encode([item.text for item in batch])
        vectors.upsert(
            [
                Point(item.id, row.tolist(), {"family": item.family, "source": item.source})
                for item, row in zip(batch, rows, strict=True)
            ]
        )
    return len(items)
