"""Pairs: proposed from the middle of the ranking, and judged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from facet_dagster import prompts
from facet_dagster.adapters.memory import HashEmbedder, MemoryVectorStore, ScriptedLLM
from facet_dagster.domain.seed import Candidate, HypothesisReply, JudgedCandidate, JudgeReply
from facet_dagster.domain.skill import Family, Licence, Skill, describe
from facet_dagster.ports import Point
from facet_dagster.stages import pair


def skill(ident: str, family: Family = Family.DATA, description: str = "") -> Skill:
    return Skill(
        id=ident,
        name=ident,
        title=ident,
        description=description,
        body="body",
        family=family,
        licence=Licence(spdx="MIT", allowed=True, evidence="test"),
        source="folder",
        origin=ident,
    )


def hypotheses(*, concrete: bool = True) -> HypothesisReply:
    return HypothesisReply(understanding="u", tags=["t"], concrete=concrete, hypotheses=[])


def verdict(**changes: Any) -> dict[str, Any]:
    good = {"complementary": True, "terminal_executable": True, "verifiable": 4, "scenario": "joint", "reason": "r"}
    good |= {"family": "structured data"}
    return {**good, **changes}


def judged(first: str, second: str, *, score: float = 0.5, **changes: Any) -> JudgedCandidate:
    one, two = sorted((first, second))
    candidate = Candidate(id=pair.pair_id(one, two), skills=(one, two), anchor=first, score=score)
    return JudgedCandidate(candidate=candidate, reply=JudgeReply.model_validate(verdict(**changes)))


def store_at(scores: dict[str, float], target: Skill) -> tuple[MemoryVectorStore, HashEmbedder]:
    """Neighbours at exact cosines from the target's vector."""
    embedder = HashEmbedder()
    vector = embedder.encode([describe(target.name, target.description, target.body)])[0]
    free = next(n for n in range(256) if vector[n] == 0)
    store = MemoryVectorStore()
    store.upsert([Point(target.id, vector.tolist())])
    for ident, score in scores.items():
        row = vector * score
        row[free] = (1 - score**2) ** 0.5
        store.upsert([Point(ident, row.tolist())])
    return store, embedder


def test_only_the_middle_of_the_ranking_is_proposed_nearest_first() -> None:
    target = skill("s-0")
    scores = {"s-1": 0.95, "s-2": 0.85, "s-3": 0.5, "s-4": 0.1}
    vectors, embedder = store_at(scores, target)
    found = pair.propose(target, vectors=vectors, embedder=embedder, llm=ScriptedLLM({}), limit=5)
    assert [c.skills for c in found] == [("s-0", "s-2"), ("s-0", "s-3")]
    assert [c.score for c in found] == [0.85, 0.5]
    assert all(c.anchor == "s-0" for c in found)


@pytest.mark.parametrize("limit", [1, 2])
def test_at_most_limit_pairs_are_proposed(limit: int) -> None:
    target = skill("s-0")
    vectors, embedder = store_at({f"s-{n}": 0.8 - n / 100 for n in range(1, 9)}, target)
    assert len(pair.propose(target, vectors=vectors, embedder=embedder, llm=ScriptedLLM({}), limit=limit)) == limit


def test_the_same_pair_has_one_id_from_both_sides() -> None:
    assert pair.pair_id("a", "b") == pair.pair_id("b", "a") != pair.pair_id("a", "c")
    assert pair.pair_id("a", "b").startswith("pair-")
    assert len(pair.pair_id("a", "b")) == len("pair-") + 32


class Replay(ScriptedLLM):
    """Answers pins from a recording, as a tape does."""

    def __init__(self, recorded: dict[tuple[str, str], list[str]]) -> None:
        super().__init__({})
        self._recorded = recorded

    def pin(self, name: str, subject: str, compute: Callable[[], list[str]]) -> list[str]:
        return self._recorded[name, subject]


def test_a_replay_neither_embeds_nor_searches() -> None:
    closed = MemoryVectorStore()
    closed.close()
    llm = Replay({("neighbours", "s-0"): ["s-9 0.612"]})
    [found] = pair.propose(skill("s-0"), vectors=closed, embedder=HashEmbedder(), llm=llm, limit=3)
    assert (found.skills, found.score) == (("s-0", "s-9"), 0.612)


def ask(reply: dict[str, Any], *, concrete: tuple[bool, bool] = (True, True)) -> tuple[JudgedCandidate, ScriptedLLM]:
    llm = ScriptedLLM({"judge": [reply]})
    views = (hypotheses(concrete=concrete[0]), hypotheses(concrete=concrete[1]))
    return pair.judge(judged("s-1", "s-2").candidate, skill("s-1"), skill("s-2"), views, llm=llm), llm


def test_an_accepted_pair_keeps_the_reply() -> None:
    found, llm = ask(verdict())
    assert found.rejection is None
    assert found.reply is not None
    assert found.reply.scenario == "joint"
    assert llm.asked == [("judge", found.candidate.id, 0)]


@pytest.mark.parametrize(
    "changes", [{"complementary": False}, {"terminal_executable": False}, {"verifiable": 2}, {"verifiable": 1}]
)
def test_a_refused_pair_is_a_rejection_with_the_judges_reason(changes: dict[str, Any]) -> None:
    found, _ = ask(verdict(**changes, reason="no result in common"))
    assert found.rejection is not None
    assert (found.rejection.reason, found.rejection.message) == ("seed.refused_by_judge", "no result in common")


def test_two_vague_skills_are_refused_without_a_call() -> None:
    found, llm = ask(verdict(), concrete=(False, False))
    assert found.rejection is not None
    assert found.rejection.reason == "seed.refused_by_judge"
    assert llm.asked == []


@pytest.mark.parametrize(("concrete", "asked"), [((True, False), 1), ((False, True), 0)])
def test_a_topic_may_be_a_partner_and_no_anchor(concrete: tuple[bool, bool], asked: int) -> None:
    found, llm = ask(verdict(), concrete=concrete)  # the first is the anchor
    assert (found.rejection is None) == bool(asked)
    assert len(llm.asked) == asked


def test_a_malformed_reply_rejects_this_pair_only() -> None:
    found, _ = ask({"complementary": "perhaps"})
    assert found.rejection is not None
    assert (found.rejection.reason, found.rejection.component) == ("llm.malformed_reply", "seed")
    assert found.reply is None


def test_the_question_is_the_same_whichever_skill_comes_first() -> None:
    one, two = skill("s-1", description="one"), skill("s-2", description="two")
    llm = ScriptedLLM({"judge": [verdict(), verdict()]})
    candidate = judged("s-1", "s-2").candidate
    pair.judge(candidate, one, two, (hypotheses(), hypotheses(concrete=False)), llm=llm)
    pair.judge(candidate, two, one, (hypotheses(concrete=False), hypotheses()), llm=llm)
    assert llm.variables[0] == llm.variables[1]
    assert "s-2" in prompts.render("judge", llm.variables[0], JudgeReply).user


def test_the_version_follows_the_prompt() -> None:
    assert prompts.version("judge") in pair.VERSION
