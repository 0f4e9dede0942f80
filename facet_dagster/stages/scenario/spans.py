"""Which words of a skill an operation rests on: quotes looked up in the skill's text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal

from facet_dagster.domain.scenario import AnalysisReply
from facet_dagster.domain.seed import Span
from facet_dagster.domain.skill import Skill

_WORD = re.compile(r"[^\W_]+")
SHORTEST, LONGEST = 3, 60
# What one skill must state itself so that a task can be about it, and what the other must add.
ANCHOR, PARTNER = 3, 1

Part = Literal["body", "description"]


def spans_of(analysis: AnalysisReply, skills: Mapping[str, Skill]) -> tuple[Span, ...]:
    """The place of every quote that stands in its skill; ``skills`` maps A and B to them. First place wins."""
    return tuple(_spans(analysis, skills))


def _spans(analysis: AnalysisReply, skills: Mapping[str, Skill]) -> Iterator[Span]:
    for read in analysis.skills:
        skill = skills[read.ref]
        parts: tuple[tuple[Part, str], ...] = (("body", skill.body), ("description", skill.description))
        for operation in read.operations:
            for part, text in parts:
                place = find_quote(operation.quote, text)
                if place is not None:
                    yield Span(operation=operation.id, skill=skill.id, part=part, start=place[0], end=place[1])
                    break


def find_quote(quote: str, text: str) -> tuple[int, int] | None:
    """Where the words of ``quote`` stand in ``text``, in their order; case, blanks and Markdown do not count.

    None when they do not, or when there are fewer than three or more than sixty.
    """
    wanted = [word.lower() for word in _WORD.findall(quote)]
    if not SHORTEST <= len(wanted) <= LONGEST:
        return None
    words = list(_WORD.finditer(text))
    plain = [word[0].lower() for word in words]
    last = len(plain) - len(wanted)
    at = next((n for n in range(last + 1) if plain[n] == wanted[0] and plain[n : n + len(wanted)] == wanted), None)
    return None if at is None else (words[at].start(), words[at + len(wanted) - 1].end())


def thin(analysis: AnalysisReply, spans: tuple[Span, ...]) -> list[str]:
    """Why these skills are no ground for a task; empty when they are."""
    rested = {span.operation for span in spans}
    counts = {read.ref: sum(operation.id in rested for operation in read.operations) for read in analysis.skills}
    found = [
        f"Skill {ref} itself states {count} of the operations; at least {PARTNER} must rest on its own words."
        for ref, count in counts.items()
        if count < PARTNER
    ]
    if not found and max(counts.values()) < ANCHOR:
        found.append(f"Neither skill itself states {ANCHOR} operations: {counts['A']} of A and {counts['B']} of B.")
    if found:
        found += [
            f"The quote of {operation.id} does not stand in skill {read.ref}: {operation.quote[:80]!r}"
            for read in analysis.skills
            for operation in read.operations
            if operation.quote and operation.id not in rested
        ]
    return found


def operation_problems(analysis: AnalysisReply) -> list[str]:
    """Ids that do not fit."""
    found = []
    for read in analysis.skills:
        ids = [operation.id for operation in read.operations]
        if ids != [f"{read.ref}{n}" for n in range(1, len(ids) + 1)]:
            found.append(f"The operations of skill {read.ref} must be {read.ref}1, {read.ref}2, ... without gaps.")
    return found
