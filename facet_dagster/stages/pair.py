"""Stage 2, pairing: related skills by retrieval, a model's judgement, and a balanced selection (paper, section 3.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import date
from typing import Any

from facet_dagster import prompts
from facet_dagster.domain.ids import digest, seed_key
from facet_dagster.domain.outcome import Component, Reason, reject
from facet_dagster.domain.scenario import Candidate, HypothesisReply, JudgedCandidate, JudgeReply, Seed
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


def select(
    judged: Iterable[JudgedCandidate],
    skills: Mapping[str, Skill],
    *,
    count: int,
    taken: Collection[str],
    day: date,
) -> list[Seed]:
    """At most ``count`` seeds, balanced over task families, then over pairs of skill families; sorted by key.

    ``taken`` holds ids of pairs and of skills that earlier selections used: such a pair is never taken
    again, such a skill only when nothing else is left. The order of ``judged`` does not matter.
    """
    groups = _groups(judged, skills, taken)
    chosen: list[JudgedCandidate] = []
    used = Counter(ident for ident in taken if not ident.startswith("pair-"))
    for reuse in (False, True):
        done = {item.candidate.id for item in chosen}
        open_ = {group: [i for i in pairs if i.candidate.id not in done] for group, pairs in groups.items()}
        _in_balance(open_, chosen, used, count=count, reuse=reuse)
    return sorted((_seed(item, skills, day) for item in chosen), key=lambda seed: seed.key)


Group = tuple[str, tuple[str, ...]]


def _groups(
    judged: Iterable[JudgedCandidate], skills: Mapping[str, Skill], taken: Collection[str]
) -> dict[Group, list[JudgedCandidate]]:
    """Accepted new pairs by the family of their work and the families of their skills, the best pair first."""
    best: dict[str, JudgedCandidate] = {}
    for item in sorted(judged, key=_merit, reverse=True):
        known = all(ident in skills for ident in item.candidate.skills)
        if item.reply is not None and item.rejection is None and known and item.candidate.id not in taken:
            best.setdefault(item.candidate.id, item)
    groups: dict[Group, list[JudgedCandidate]] = {}
    for item in best.values():
        families = tuple(sorted(skills[ident].family.value for ident in item.candidate.skills))
        groups.setdefault((item.reply.family.value if item.reply else "", families), []).append(item)
    return groups


def _merit(item: JudgedCandidate) -> tuple[int, float, str, str]:
    return item.reply.verifiable if item.reply else 0, item.candidate.score, item.candidate.id, item.candidate.anchor


def _in_balance(
    groups: Mapping[Group, list[JudgedCandidate]],
    chosen: list[JudgedCandidate],
    used: Counter[str],
    *,
    count: int,
    reuse: bool,
) -> None:
    """One pair after the other, each from the group that has least so far, the smallest group first.

    Without ``reuse`` only pairs of two unused skills. Empties ``groups``.
    """
    sizes = {group: len(pairs) for group, pairs in groups.items()}
    works, kinds = Counter[str](), Counter[tuple[str, ...]]()
    while len(chosen) < count:
        if not reuse:
            _drop_used(groups, used)
        open_ = [group for group, pairs in groups.items() if pairs]
        if not open_:
            return
        group = min(open_, key=lambda g: (works[g[0]], kinds[g[1]], sizes[g], g))
        pairs = groups[group]
        item = min(pairs, key=lambda one: sum(used[i] for i in one.candidate.skills)) if reuse else pairs[0]
        pairs.remove(item)
        chosen.append(item)
        used.update(item.candidate.skills)
        works[group[0]] += 1
        kinds[group[1]] += 1


def _drop_used(groups: Mapping[Group, list[JudgedCandidate]], used: Counter[str]) -> None:
    """Take pairs of used skills off the head of each group: what is used stays used."""
    for pairs in groups.values():
        while pairs and any(used[ident] for ident in pairs[0].candidate.skills):
            del pairs[0]


def _seed(item: JudgedCandidate, skills: Mapping[str, Skill], day: date) -> Seed:
    first, second = item.candidate.skills
    return Seed(
        key=seed_key(day, digest([first, second])),
        candidate=item.candidate.id,
        skills=(first, second),
        scenario=item.reply.scenario if item.reply else "",
        families=(skills[first].family.value, skills[second].family.value),
    )
