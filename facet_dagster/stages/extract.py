"""Stage 1 without a model: scenarios out of a skill's own words on when it is used (paper, section 3.1).

Nothing is made up: each hypothesis is one passage of the skill, with its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from facet_dagster.domain.facts import HypothesisFact
from facet_dagster.domain.seed import Hypothesis, HypothesisReply, SkillHypotheses, Span
from facet_dagster.domain.skill import Skill
from facet_dagster.funnel import Outcome

VERSION = "1"
MOST = 3
TITLE, SITUATION, UNDERSTANDING = 12, 60, 50  # words
READ = 20_000  # characters of a body

Part = Literal["body", "description"]
Passage = tuple[Part, int, int]

_HEADING = re.compile(
    r"(?im)^#{1,4} +(?!.*\b(?:not|avoid)\b)[^\n]*(?:when to (?:use|activate|invoke)"
    r"|use (?:this )?(?:skill )?(?:when|for|if)\b|use cases?|\bscenarios?\b|适用|使用场景|何时使用)[^\n]*\n"
)
_NEXT = re.compile(r"(?m)^#{1,4} ")
_ITEM = re.compile(r"(?m)^[ \t]*(?:[-*+]|\d{1,2}[.)])[ \t]+(\S[^\n]{10,600})")
_SENTENCE = re.compile(r"[^.!?。\s][^!?。\n]*?(?:[.!?](?=\s|$)|。|$)", re.MULTILINE)
_WHEN = re.compile(r"(?i)\buse(?:d|ful)?\b[^.]{0,30}\b(?:when|for|if|to)\b|适用于|用于|当用户")
_NUMBERED = re.compile(r"\(\d\)\s*([^()]{12,}?)(?=[,;.]?\s*(?:and |or )?\(\d\)|[.;]?\s*$)")
_FORMAT = re.compile(
    r"(?i)\b(csv|tsv|jsonl|json|ya?ml|toml|xml|markdown|html|pdf|excel|xlsx|docx|pptx|sqlite|sql|parquet|logs?|svg|png|jpe?g|wav"
    r"|mp3|mp4|srt|vtt|zip|ini)\b"
)


def extract(skill: Skill) -> Outcome:
    """Outcome with a SkillHypotheses and a HypothesisFact for each of at most three passages; never asks anybody."""
    passages = list(dict.fromkeys(_passages(skill)))[:MOST]
    hypotheses = [_hypothesis(_text(skill, passage)) for passage in passages]
    spans = tuple(
        Span(operation=f"H{n}", skill=skill.id, part=part, start=start, end=end)
        for n, (part, start, end) in enumerate(passages, 1)
    )
    known = skill.classified
    reply = HypothesisReply(
        understanding=_shortened(skill.description or skill.title, UNDERSTANDING),
        tags=list(known.tags) if known else [],
        concrete=bool(known and known.dense),
        hypotheses=hypotheses,
    )
    facts = {
        f.fact_id: f for h in hypotheses for f in [HypothesisFact(skill=skill.id, title=h.title, situation=h.situation)]
    }
    return Outcome(
        value=SkillHypotheses(skill_id=skill.id, reply=reply, extracted=True, spans=spans),
        numbers={"hypotheses": len(hypotheses), "concrete": float(reply.concrete)},
        facts=tuple(facts.values()),
    )


def _passages(skill: Skill) -> Iterator[Passage]:
    """Items of the sections on use, then sentences of the description on use, then its first sentence."""
    body = skill.body[:READ]
    for heading in _HEADING.finditer(body):
        end = _NEXT.search(body, heading.end())
        for item in _ITEM.finditer(body, heading.end(), end.start() if end else len(body)):
            yield "body", item.start(1), item.start(1) + len(item[1].rstrip())
    sentences = list(_SENTENCE.finditer(skill.description))
    for sentence in [one for one in sentences if _WHEN.search(one[0])] or sentences[:1]:
        items = list(_NUMBERED.finditer(skill.description, sentence.start(), sentence.end()))
        for match, group in [(item, 1) for item in items] or [(sentence, 0)]:
            start = match.start(group)
            yield "description", start, start + len(match[group].rstrip())


def _text(skill: Skill, passage: Passage) -> str:
    part, start, end = passage
    return (skill.body if part == "body" else skill.description)[start:end]


def _hypothesis(passage: str) -> Hypothesis:
    plain = re.sub(r"[*`_]{1,3}", "", passage)
    formats = list(dict.fromkeys(match[0].lower() for match in _FORMAT.finditer(passage)))
    return Hypothesis(
        title=_shortened(plain, TITLE), situation=_shortened(plain, SITUATION), inputs=formats, outputs=[]
    )


def _shortened(text: str, count: int) -> str:
    """At most so many words, and eight times as many characters: some scripts have no blanks."""
    words = text.split()
    return " ".join(words[:count])[: 8 * count]
