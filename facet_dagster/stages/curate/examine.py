"""What one collected skill is by itself: masked before it is stored, then read, cleaned and licensed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

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


class _Clear(NamedTuple):
    """A file decoded and masked: ``notes`` of decoding, ``secrets`` what was masked."""

    text: str
    damaged: float
    notes: list[str]
    secrets: list[str]


def _clear(data: bytes) -> _Clear:
    text, damaged, notes = decode(data)
    text, secrets = clean.redact(text)
    return _Clear(text, damaged, notes, secrets)


def take(raw: RawSkill, data: bytes, policy: Policy) -> tuple[RawSkill, bytes, Skill | Rejection]:
    """``masked`` and ``examine`` of a skill that was just collected, in one reading."""
    data = _readable(raw, data)
    read = _clear(data)
    raw, data = _masked(raw, data, read)
    return raw, data, _examined(raw, read, policy)


def masked(raw: RawSkill, data: bytes) -> tuple[RawSkill, bytes]:
    """The skill as it may be stored: no credential and no e-mail address in it; its id is that of the original.

    Of an oversized file, which nobody reads, nothing is stored.
    """
    data = _readable(raw, data)
    return _masked(raw, data, _clear(data))


def _readable(raw: RawSkill, data: bytes) -> bytes:
    return b"" if clean.oversized(raw.size) else data


def _masked(raw: RawSkill, data: bytes, read: _Clear) -> tuple[RawSkill, bytes]:
    names = {fact: tuple(map(_path, getattr(raw.facts, fact))) for fact in ("scripts", "references", "assets", "tests")}
    clear = {
        "licence_hint": clean.redact(raw.licence_hint)[0],
        "origin": _path(raw.origin),
        "owner": _path(raw.owner),
        "slug": _path(raw.slug),
        "facts": raw.facts.model_copy(update=names),
    }
    if read.secrets:
        data = read.text.encode("utf-8", "replace")
        clear |= {"notes": (*read.notes, *read.secrets), "damaged": read.damaged}
    return raw.model_copy(update=clear | {"text": digest(data)}), data


def _path(text: str) -> str:
    """Folder by folder: what follows a slash is otherwise taken for a part of a URL."""
    return "/".join(clean.redact(part)[0] for part in text.split("/"))


def examine(raw: RawSkill, data: bytes, policy: Policy) -> Skill | Rejection:
    """The skill, with a family that is settled later, or why it is dropped. Never raises."""
    read = _clear(_readable(raw, data))
    if raw.notes:  # what is stored was masked: the file itself was read before
        read = read._replace(damaged=raw.damaged, notes=[*raw.notes, *read.notes])
    return _examined(raw, read, policy)


def _examined(raw: RawSkill, read: _Clear, policy: Policy) -> Skill | Rejection:
    if found := clean.oversized(raw.size):
        return found
    parsed = parse(read.text, slug=raw.slug, damaged=read.damaged, notes=[*read.notes, *read.secrets])
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
