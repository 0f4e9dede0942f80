"""Stage 1, last step: the vectors by which related skills are found (paper, section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence

from facet_dagster.domain.skill import Skill, describe
from facet_dagster.ports import Embedder, Point, VectorStore

VERSION = "2"
BATCH = 512


def index_text(skill: Skill) -> str:
    """What a skill is found by: name, description and headings, at most about 100 tokens."""
    return describe(skill.name, skill.description, skill.body)


def index(skills: Sequence[Skill], *, embedder: Embedder, vectors: VectorStore) -> int:
    """Embed and store ``skills`` with their family and source; returns how many. Doing it again changes nothing.

    Raises EmbedderError, VectorStoreError.
    """
    for start in range(0, len(skills), BATCH):
        batch = skills[start : start + BATCH]
        rows = embedder.encode([index_text(skill) for skill in batch])
        vectors.upsert(
            [
                Point(skill.id, row.tolist(), {"family": skill.shelf, "source": skill.source})
                for skill, row in zip(batch, rows, strict=True)
            ]
        )
    return len(skills)
