"""What one skill says about itself: read, masked, cleaned, licensed."""

from __future__ import annotations

from dataclasses import dataclass

from facet_dagster.domain.outcome import Rejection
from facet_dagster.domain.skill import Family, RawSkill, Skill
from facet_dagster.stages.curate import clean, licence
from facet_dagster.stages.curate.parse import decode, parse


@dataclass(frozen=True)
class Policy:
    """Which licences (SPDX identifiers) are allowed, and whether a skill that states none is kept."""

    licences: frozenset[str] = licence.ALLOWED
    unknown_licence: bool = False


def examine(raw: RawSkill, data: bytes, policy: Policy) -> Skill | Rejection:
    """The skill, with a family that is settled later, or why it is dropped."""
    if found := clean.oversized(raw.size):
        return found
    text, damaged, notes = decode(data)
    text, masked = clean.redact(text)
    parsed = parse(text, slug=raw.slug, damaged=damaged, notes=[*notes, *masked])
    if found := clean.check(parsed):
        return found
    terms = licence.find(parsed.matter, raw.licence_hint, allowed=policy.licences)
    if found := licence.judge(terms, allow_unknown=policy.unknown_licence):
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
