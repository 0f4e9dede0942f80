"""What one collected skill is by itself: masked before it is stored, then read, cleaned and licensed."""

from __future__ import annotations

from dataclasses import dataclass

from facet_dagster.domain.ids import digest
from facet_dagster.domain.outcome import Rejection
from facet_dagster.domain.skill import Family, RawSkill, Skill
from facet_dagster.stages.curate import clean, language, licence
from facet_dagster.stages.curate.parse import decode, parse


@dataclass(frozen=True)
class Policy:
    """What a user may decide about skills: ``licences`` (SPDX identifiers) that are allowed, whether a skill that
    states none is kept, and ``languages`` (ISO 639-1), where none means any."""

    licences: frozenset[str] = licence.ALLOWED
    unknown_licence: bool = False
    languages: frozenset[str] = frozenset()


def masked(raw: RawSkill, data: bytes) -> tuple[RawSkill, bytes]:
    """The skill as it may be stored: no credential and no e-mail address in it; its id is that of the original."""
    names = {fact: tuple(map(_path, getattr(raw.facts, fact))) for fact in ("scripts", "references", "assets", "tests")}
    clear = {
        "licence_hint": clean.redact(raw.licence_hint)[0],
        "origin": _path(raw.origin),
        "owner": _path(raw.owner),
        "slug": _path(raw.slug),
        "facts": raw.facts.model_copy(update=names),
    }
    raw = raw.model_copy(update=clear)
    text, damaged, notes = decode(data)
    text, found = clean.redact(text)
    if not found:
        return raw, data
    data = text.encode("utf-8", "replace")
    kept = {"text": digest(data), "notes": (*notes, *found), "damaged": damaged}
    return raw.model_copy(update=kept), data


def _path(text: str) -> str:
    """Folder by folder: what follows a slash is otherwise taken for a part of a URL."""
    return "/".join(clean.redact(part)[0] for part in text.split("/"))


def examine(raw: RawSkill, data: bytes, policy: Policy) -> Skill | Rejection:
    """The skill, with a family that is settled later, or why it is dropped. Never raises."""
    if found := clean.oversized(raw.size):
        return found
    text, damaged, notes = decode(data)
    text, secrets = clean.redact(text)
    damaged = raw.damaged if raw.notes else damaged
    parsed = parse(text, slug=raw.slug, damaged=damaged, notes=[*raw.notes, *notes, *secrets])
    if found := clean.check(parsed) or language.judge(parsed, policy.languages):
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
        commit=raw.commit,
    )
