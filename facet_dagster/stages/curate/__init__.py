"""Stage 1, second step: read, clean, license, deduplicate and classify skills (paper, section 3.1).

A skill that is dropped is a row with a reason, never an exception.
"""

from __future__ import annotations

from collections.abc import Sequence

from facet_dagster.domain.outcome import Rejection
from facet_dagster.domain.skill import Curated, Family, RawSkill, Skill
from facet_dagster.ports import Embedder
from facet_dagster.stages.curate import classify, clean, dedup, licence
from facet_dagster.stages.curate.parse import decode, parse

VERSION = "2"


def curate(
    raws: Sequence[tuple[RawSkill, bytes]],
    *,
    embedder: Embedder,
    allowed_licences: frozenset[str] = licence.ALLOWED,
    allow_unknown: bool = False,
) -> list[Curated]:
    """One Curated for each raw skill, in the same order. Duplicates are found among all that are given.

    ``allow_unknown`` keeps skills that state no licence. Raises EmbedderError.
    """
    first = [_one(raw, data, allowed_licences, allow_unknown=allow_unknown) for raw, data in raws]
    unique = {skill.id: skill for skill in first if isinstance(skill, Skill)}
    doubles = dedup.duplicates(list(unique.values()))
    kept = [skill for skill in unique.values() if skill.id not in doubles]
    final = {skill.id: skill for skill in classify.classified(kept, embedder=embedder)}
    return [_curated(raw, found, final, doubles) for (raw, _), found in zip(raws, first, strict=True)]


def _one(raw: RawSkill, data: bytes, allowed: frozenset[str], *, allow_unknown: bool) -> Skill | Rejection:
    """The skill, with a family that is settled later, or why it is dropped."""
    if found := clean.oversized(raw.size):
        return found
    text, damaged, notes = decode(data)
    text, masked = clean.redact(text)
    parsed = parse(text, slug=raw.slug, damaged=damaged, notes=[*notes, *masked])
    if found := clean.check(parsed):
        return found
    terms = licence.find(parsed.matter, raw.licence_hint, allowed=allowed)
    if found := licence.judge(terms, allow_unknown=allow_unknown):
        return found
    return Skill(
        id=raw.id,
        name=parsed.name,
        title=parsed.title,
        description=parsed.description,
        body=parsed.body,
        family=Family.AI,
        licence=terms,
        source=raw.source,
        origin=raw.origin,
        notes=parsed.notes,
        facts=raw.facts,
    )


def _curated(
    raw: RawSkill, found: Skill | Rejection, final: dict[str, Skill], doubles: dict[str, dedup.Duplicate]
) -> Curated:
    if isinstance(found, Rejection):
        return Curated(id=raw.id, origin=raw.origin, rejection=found)
    if raw.id in doubles:
        of, why = doubles[raw.id]
        return Curated(id=raw.id, origin=raw.origin, rejection=why, duplicate_of=of)
    return Curated(id=raw.id, origin=raw.origin, skill=final[raw.id])
