"""Answers from the index: the skills that a sentence is about, and groups of them that add to each other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from facet_dagster.domain.ids import bucket_keys, digest
from facet_dagster.domain.outcome import Value
from facet_dagster.domain.skill import Family, Skill
from facet_dagster.errors import ConfigError
from facet_dagster.funnel import current
from facet_dagster.pipeline.graph import skill_stages
from facet_dagster.pipeline.skills import kept_skills
from facet_dagster.ports import ArtifactStore, Embedder, Ledger, VectorStore
from facet_dagster.settings import Settings
from facet_dagster.stages.retrieve import POOL, Lexicon, complementary, search


class FoundSkill(Value):
    """A skill in an answer. ``score`` compares within one answer only."""

    id: str
    score: float
    name: str
    description: str
    family: Family
    category: str
    tier: str
    tags: tuple[str, ...]
    origin: str


def find(
    text: str,
    *,
    settings: Settings,
    ledger: Ledger,
    store: ArtifactStore,
    vectors: VectorStore,
    embedder: Embedder,
    family: Family | None,
    limit: int,
    group: int,
) -> list[FoundSkill]:
    """At most ``limit`` skills, best first; with ``group`` so many that are near to ``text`` and unlike each other.

    Raises ConfigError when nothing is indexed, EmbedderError, VectorStoreError.
    """
    if not text.strip():
        raise ConfigError("There is nothing to search for: give a sentence that says what is needed")
    kept = kept_skills(settings, ledger, store)
    if not kept or not vectors.ids():
        raise ConfigError("No skill is indexed yet: `facet ingest PATH`, then `facet run --until seed`")
    lexicon = _lexicon(settings, ledger, kept)
    [hits] = search(
        [text],
        vectors=vectors,
        embedder=embedder,
        lexicon=lexicon,
        limit=max(limit, POOL) if group else limit,
        where={"family": family} if family else None,
        among=lexicon.of_family(family) if family else None,
    )
    scores = {hit.id: hit.score for hit in hits if hit.id in kept}
    if group:
        chosen = complementary(text, [kept[ident] for ident in scores], embedder=embedder, size=group)
        return [_found(skill, scores[skill.id]) for skill, _ in chosen]
    return [_found(kept[ident], score) for ident, score in scores.items()]


def _lexicon(settings: Settings, ledger: Ledger, kept: Mapping[str, Skill]) -> Lexicon:
    """Read back while the skills are the same, else made anew."""
    results = current(skill_stages(settings, ledger).skills, bucket_keys(), ledger)
    name = digest([result.output for _, result in sorted(results.items())])[:16]
    folder = settings.home / "words"
    path = folder / f"{name}.npz"
    try:
        return Lexicon.load(path)
    except (OSError, ValueError):
        lexicon = Lexicon.of([kept[ident] for ident in sorted(kept)])
        _keep(lexicon, path)
        return lexicon


def _keep(lexicon: Lexicon, path: Path) -> None:
    """A cache: a full disk only means that it is made again."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for stale in path.parent.glob("*.npz"):
            stale.unlink(missing_ok=True)
        lexicon.save(path)
    except OSError:
        path.unlink(missing_ok=True)


def _found(skill: Skill, score: float) -> FoundSkill:
    known = skill.classified
    return FoundSkill(
        id=skill.id,
        score=score,
        name=skill.name,
        description=skill.description,
        family=skill.shelf,
        category=known.category if known else "",
        tier=known.tier if known else "",
        tags=known.tags if known else (),
        origin=skill.origin,
    )
