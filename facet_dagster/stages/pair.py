"""Stage 2, pairing: related skills by retrieval, and a model's judgement (paper, section 3.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facet_dagster import prompts
from facet_dagster.domain.ids import digest
from facet_dagster.domain.outcome import Component, Reason, reject
from facet_dagster.domain.seed import Candidate, HypothesisReply, JudgedCandidate, JudgeReply
from facet_dagster.domain.skill import Skill, describe
from facet_dagster.errors import MalformedReply
from facet_dagster.ports import LLM, Embedder, VectorStore

VERSION = f"3-{prompts.version('judge')}"

# Above: the same skill in other words. Below: nothing in common.
NEAR_IDENTICAL = 0.9
UNRELATED = 0.2
SPARE = 8


def pair_id(first: str, second: str) -> str:
    """Id of an unordered pair of skill ids."""
    return f"pair-{digest(sorted((first, second)))[:32]}"


def propose(skill: Skill, *, vectors: VectorStore, embedder: Embedder, llm: LLM, limit: int) -> list[Candidate]:
    """At most ``limit`` pairs of ``skill`` with a neighbour of cosine between 0.2 and 0.9, the nearest first.

    The ranking is pinned, scores included, so that a replay neither embeds nor searches.
    Raises EmbedderError, VectorStoreError, LLMError.
    """

    def rank() -> list[str]:
        vector = embedder.encode([describe(skill.name, skill.description, skill.body)])[0].tolist()
        hits = vectors.query([vector], limit=2 * limit + SPARE)[0]
        related = [hit for hit in hits if hit.id != skill.id and UNRELATED < hit.score < NEAR_IDENTICAL]
        return [f"{hit.id} {hit.score:.3f}" for hit in related[:limit]]

    return pinned("neighbours", skill.id, rank, llm=llm)


def pinned(name: str, anchor: str, rank: Callable[[], list[str]], *, llm: LLM) -> list[Candidate]:
    """Pairs of ``anchor`` with the partners in the lines ``<skill id> <cosine>`` of ``rank``; pinned."""
    lines = (line.split(" ") for line in llm.pin(name, anchor, rank))
    return [_candidate(anchor, other, float(score)) for other, score in lines]


def _candidate(anchor: str, other: str, score: float) -> Candidate:
    first, second = sorted((anchor, other))
    return Candidate(id=pair_id(first, second), skills=(first, second), anchor=anchor, score=score)


def judge(
    candidate: Candidate,
    first: Skill,
    second: Skill,
    hypotheses: tuple[HypothesisReply, HypothesisReply],
    *,
    llm: LLM,
) -> JudgedCandidate:
    """Ask whether the two skills make one verifiable terminal scenario; ``first`` and ``second`` in any order.

    Where the anchor is only a topic nothing is asked: such a skill is no ground for a task, though it may be the
    partner of one. A malformed reply rejects the candidate. Raises LLMError.
    """
    anchor = hypotheses[0] if candidate.anchor == first.id else hypotheses[1]
    if not anchor.concrete:
        why = reject(Reason.SEED_REFUSED, "The anchor skill states no procedure, formats or rules.")
        return JudgedCandidate(candidate=candidate, rejection=why)
    views = sorted(zip((first, second), hypotheses, strict=True), key=lambda pair: pair[0].id)
    variables = {name: _view(*view) for name, view in zip(("first", "second"), views, strict=True)}
    try:
        reply = llm.ask("judge", variables, JudgeReply, subject=candidate.id)
    except MalformedReply as error:
        why = reject(Reason.LLM_MALFORMED, str(error), component=Component.SEED, problem=error.problem[:2000])
        return JudgedCandidate(candidate=candidate, rejection=why)
    refusal = None if reply.accepted else reject(Reason.SEED_REFUSED, reply.reason)
    return JudgedCandidate(candidate=candidate, reply=reply, rejection=refusal)


def _view(skill: Skill, hypotheses: HypothesisReply) -> dict[str, Any]:
    """What the judge reads about one skill: no id, so that the same skills ask the same question."""
    return {
        "name": skill.name,
        "family": skill.family.value,
        "description": skill.description,
        "understanding": hypotheses.understanding,
        "concrete": hypotheses.concrete,
        "scenarios": [scenario.model_dump(mode="json") for scenario in hypotheses.hypotheses],
    }
