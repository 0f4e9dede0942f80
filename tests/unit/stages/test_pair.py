"""Pairs: proposed from the middle of the ranking, judged, and selected in balance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import date
from itertools import combinations
from typing import Any

import pytest

from facet_dagster import prompts
from facet_dagster.adapters.memory import HashEmbedder, MemoryVectorStore, ScriptedLLM
from facet_dagster.domain.ids import digest
from facet_dagster.domain.scenario import Candidate, HypothesisReply, JudgedCandidate, JudgeReply
from facet_dagster.domain.skill import Family, Licence, Skill, describe
from facet_dagster.ports import Point
from facet_dagster.stages import pair

DAY = date(2026, 3, 9)


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


def select(
    items: list[JudgedCandidate], skills: dict[str, Skill], count: int, taken: set[str] | None = None
) -> list[Any]:
    return pair.select(items, skills, count=count, taken=taken or set(), day=DAY)


FAMILIES = [Family.AI, Family.AI, Family.AI, Family.AI, Family.DATA, Family.DATA, Family.SOFTWARE, Family.SOFTWARE]
SKILLS = {f"s-{n}": skill(f"s-{n}", family) for n, family in enumerate(FAMILIES)}
ALL = [judged(one, two) for one, two in combinations(sorted(SKILLS), 2)]


def test_keys_carry_the_day_and_the_pair_and_come_sorted() -> None:
    seeds = select(ALL, SKILLS, 4)
    assert [seed.key for seed in seeds] == sorted(seed.key for seed in seeds)
    for seed in seeds:
        assert seed.key == f"260309-{digest(list(seed.skills))[:12]}"
        assert seed.candidate == pair.pair_id(*seed.skills)
        assert seed.families == tuple(SKILLS[ident].family for ident in seed.skills)


def test_the_order_of_the_candidates_does_not_matter() -> None:
    assert select(ALL, SKILLS, 4) == select(ALL[::-1], SKILLS, 4)


def test_each_skill_is_used_once_while_that_is_possible() -> None:
    used = [ident for seed in select(ALL, SKILLS, 3) for ident in seed.skills]
    assert len(set(used)) == len(used)


def test_skills_are_used_again_rather_than_falling_short() -> None:
    few = {ident: SKILLS[ident] for ident in ("s-0", "s-1", "s-2")}
    items = [judged("s-0", "s-1"), judged("s-0", "s-2"), judged("s-1", "s-2")]
    assert len(select(items, few, 3)) == 3


def test_rare_family_pairs_come_first() -> None:
    items = [judged("s-0", "s-1"), judged("s-0", "s-2"), judged("s-1", "s-3"), judged("s-4", "s-6", verifiable=3)]
    [seed] = select(items, SKILLS, 1)
    assert seed.skills == ("s-4", "s-6")


def test_within_a_family_pair_the_most_verifiable_then_the_nearest_wins() -> None:
    items = [judged("s-0", "s-1", verifiable=3, score=0.8), judged("s-2", "s-3", verifiable=5, score=0.3)]
    assert select(items, SKILLS, 1)[0].skills == ("s-2", "s-3")
    items = [judged("s-0", "s-1", score=0.4), judged("s-2", "s-3", score=0.6)]
    assert select(items, SKILLS, 1)[0].skills == ("s-2", "s-3")


def test_a_taken_pair_never_returns_and_a_taken_skill_only_at_need() -> None:
    items = [judged("s-0", "s-1", verifiable=5), judged("s-2", "s-3", verifiable=3)]
    assert [s.skills for s in select(items, SKILLS, 2, {items[0].candidate.id})] == [("s-2", "s-3")]
    assert [s.skills for s in select(items, SKILLS, 1, {"s-0"})] == [("s-2", "s-3")]
    assert len(select(items, SKILLS, 2, {"s-0"})) == 2


def test_a_pair_judged_from_both_sides_is_selected_once() -> None:
    assert len(select([judged("s-0", "s-1"), judged("s-1", "s-0")], SKILLS, 5)) == 1


@pytest.mark.parametrize("count", [0, -1])
def test_no_room_selects_nothing(count: int) -> None:
    assert select(ALL, SKILLS, count) == []


def test_refused_pairs_and_pairs_of_dropped_skills_are_left_out() -> None:
    refused, _ = ask(verdict(verifiable=1))
    assert select([refused, judged("s-0", "gone")], SKILLS, 5) == []


def test_selecting_again_among_the_selected_gives_the_same_seeds() -> None:
    seeds = select(ALL, SKILLS, 6)
    chosen = {seed.candidate for seed in seeds}
    assert select([item for item in ALL if item.candidate.id in chosen], SKILLS, 6) == seeds


def test_the_version_follows_the_prompt() -> None:
    assert prompts.version("judge") in pair.VERSION


def test_the_families_of_the_work_are_balanced_before_those_of_the_skills() -> None:
    many = {f"t-{n}": skill(f"t-{n}", Family.AI if n < 12 else Family.DATA) for n in range(16)}
    data = [judged(f"t-{n}", f"t-{n + 1}", family="structured data", verifiable=5) for n in range(0, 12, 2)]
    others = [
        judged("t-12", "t-13", family="media processing", verifiable=3),
        judged("t-14", "t-15", family="content publishing", verifiable=3),
    ]
    items = {item.candidate.id: item for item in (*data, *others)}
    works = Counter(items[seed.candidate].reply.family for seed in select(list(items.values()), many, 6))
    assert works == {"structured data": 4, "media processing": 1, "content publishing": 1}
    few = Counter(items[seed.candidate].reply.family for seed in select(list(items.values()), many, 3))
    assert set(few.values()) == {1}
