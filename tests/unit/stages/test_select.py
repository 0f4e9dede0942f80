"""Selection: global rules, held over many random corpora."""

from __future__ import annotations

import random
from collections import Counter
from datetime import date
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from facet_dagster.adapters.memory import HashEmbedder
from facet_dagster.adapters.sentence_transformers_embedder import SentenceTransformersEmbedder
from facet_dagster.domain.ids import digest
from facet_dagster.domain.outcome import Reason, reject
from facet_dagster.domain.seed import Candidate, JudgedCandidate, JudgeReply, TaskFamily
from facet_dagster.domain.skill import Family, Licence, Skill
from facet_dagster.domain.taxonomy import Category, Classification, Tier
from facet_dagster.stages.pair import pair_id
from facet_dagster.stages.select import SAME_SCENARIO, History, seeds_of, select

DAY = date(2026, 3, 9)


def skill(ident: str, category: Category | None = None, family: Family = Family.DATA) -> Skill:
    known = category and Classification(
        category=category,
        margin=0.1,
        sure=True,
        task=TaskFamily.ANALYTICS,
        tier=Tier.OFFLINE,
        dense=True,
    )
    return Skill(
        id=ident,
        name=ident,
        title=ident,
        description="",
        body="body",
        family=family,
        licence=Licence(spdx="MIT", allowed=True, evidence="test"),
        source="folder",
        origin=ident,
        classified=known,
    )


def judged(first: str, second: str, *, score: float = 0.5, **changes: Any) -> JudgedCandidate:
    """Its scenario is in words of its own, unless it is given."""
    one, two = sorted((first, second))
    reply = {
        "complementary": True,
        "terminal_executable": True,
        "verifiable": 4,
        "scenario": " ".join(digest([one, two, n])[:12] for n in range(8)),
        "reason": "r",
        "family": "structured data",
        **changes,
    }
    candidate = Candidate(id=pair_id(one, two), skills=(one, two), anchor=first, score=score)
    return JudgedCandidate(candidate=candidate, reply=JudgeReply.model_validate(reply))


def pick(items: list[JudgedCandidate], skills: dict[str, Skill], count: int, **options: Any) -> list[tuple[str, str]]:
    options = {"history": History(), "embedder": HashEmbedder(), **options}
    return [item.candidate.skills for item in select(items, skills, count=count, **options).items]


SKILLS = {f"s-{n}": skill(f"s-{n}") for n in range(8)}
ALL = [judged(one, two) for one, two in combinations(sorted(SKILLS), 2)]


def random_corpus(lot: random.Random) -> tuple[list[JudgedCandidate], dict[str, Skill]]:
    skills = {
        ident: skill(ident, lot.choice(list(Category))) for ident in (f"s-{n:03}" for n in range(lot.randrange(4, 60)))
    }
    pairs = lot.sample(list(combinations(sorted(skills), 2)), k=min(lot.randrange(2, 300), len(skills)))
    families = list(TaskFamily)
    return [
        judged(*pair, family=lot.choice(families), verifiable=lot.choice([3, 4, 5]), score=lot.random())
        for pair in pairs
    ], skills


@pytest.mark.parametrize("number", range(40))
def test_the_rules_hold_whatever_the_corpus(number: int) -> None:
    lot = random.Random(number)
    items, skills = random_corpus(lot)
    count, share = lot.randrange(1, 40), lot.choice([0.005, 0.1, 0.3])
    found = select(items, skills, count=count, history=History(), embedder=HashEmbedder(), share=share, number=number)
    idents = [item.candidate.id for item in found.items]
    uses = Counter(ident for item in found.items for ident in item.candidate.skills)
    assert len(set(idents)) == len(idents) <= count
    assert max(uses.values()) <= max(1, int(share * count))
    lot.shuffle(items)
    again = select(items, skills, count=count, history=History(), embedder=HashEmbedder(), share=share, number=number)
    assert again == found
    if len(idents) < count:  # nothing that the rules allow was left
        left = [i for i in items if i.candidate.id not in idents and i.candidate.id not in found.repeated]
        most = max(1, int(share * count))
        assert all(any(uses[ident] >= most for ident in item.candidate.skills) for item in left)


@pytest.mark.parametrize("number", range(10))
def test_task_families_are_in_balance_where_there_is_enough(number: int) -> None:
    lot = random.Random(number)
    skills = {f"s-{n:04}": skill(f"s-{n:04}", lot.choice(list(Category))) for n in range(2000)}
    weights = [lot.randrange(1, 12) for _ in TaskFamily]
    idents = sorted(skills)
    items = [
        judged(idents[2 * n], idents[2 * n + 1], family=lot.choices(list(TaskFamily), weights)[0]) for n in range(1000)
    ]
    supply = Counter(item.reply.family for item in items if item.reply)
    count = 9 * min(supply.values())
    found = select(items, skills, count=count, history=History(), embedder=HashEmbedder())
    shares = Counter(item.reply.family for item in found.items if item.reply)
    assert len(found.items) == count
    assert max(shares.values()) - min(shares.values()) <= 1
    assert max(shares.values()) <= 1.25 * min(shares.values()) or count < 45


def test_families_of_earlier_seeds_count() -> None:
    items = [judged("s-0", "s-1"), judged("s-2", "s-3"), judged("s-4", "s-5", family="media processing", verifiable=3)]
    history = History(works={"structured data": 1})
    assert pick(items, SKILLS, 1, history=history) == [("s-4", "s-5")]


def test_rare_kinds_of_skills_come_first_and_then_those_used_least() -> None:
    kinds = [Category.AI_MCP] * 6 + [Category.DATA_TABLES] * 2
    skills = {f"s-{n}": skill(f"s-{n}", kind) for n, kind in enumerate(kinds)}
    items = [judged("s-0", "s-1", verifiable=5), judged("s-2", "s-3", verifiable=5), judged("s-6", "s-7", verifiable=3)]
    assert pick(items, skills, 1) == [("s-6", "s-7")]
    assert pick(items, skills, 2)[0] == ("s-6", "s-7")
    mixed = judged("s-5", "s-7", verifiable=3)  # its kinds were used: once more than those of the others
    history = History(uses={"s-6": 1})
    assert pick([items[0], mixed], skills, 1, history=history) == [("s-0", "s-1")]


def test_within_a_kind_the_most_verifiable_then_the_nearest_wins() -> None:
    items = [judged("s-0", "s-1", verifiable=3, score=0.8), judged("s-2", "s-3", verifiable=5, score=0.3)]
    assert pick(items, SKILLS, 1) == [("s-2", "s-3")]
    items = [judged("s-0", "s-1", score=0.4), judged("s-2", "s-3", score=0.6)]
    assert pick(items, SKILLS, 1) == [("s-2", "s-3")]


def test_a_skill_is_used_once_unless_its_share_allows_more() -> None:
    items = [judged("s-0", f"s-{n}") for n in range(1, 8)]
    assert len(pick(items, SKILLS, 5)) == 1
    assert len(pick(items, SKILLS, 5, share=0.4)) == 2
    assert pick(items, SKILLS, 5, history=History(uses={"s-0": 1})) == []


def test_a_taken_pair_never_returns() -> None:
    taken = History(pairs=frozenset({ALL[0].candidate.id}))
    assert ALL[0].candidate.skills not in pick(ALL, SKILLS, 28, history=taken, share=1.0)
    assert len(pick(ALL, SKILLS, 28, history=taken, share=1.0)) == 27


def test_a_pair_judged_from_both_sides_is_selected_once() -> None:
    assert len(pick([judged("s-0", "s-1"), judged("s-1", "s-0")], SKILLS, 5)) == 1


@pytest.mark.parametrize("count", [0, -1])
def test_no_room_selects_nothing(count: int) -> None:
    assert pick(ALL, SKILLS, count) == []


def test_refused_pairs_and_pairs_of_dropped_skills_are_left_out() -> None:
    refused = judged("s-0", "s-1").model_copy(update={"rejection": reject(Reason.SEED_REFUSED, "no")})
    unasked = judged("s-2", "s-3").model_copy(update={"reply": None})
    assert pick([refused, unasked, judged("s-0", "gone")], SKILLS, 5) == []


def test_another_number_draws_another_selection_and_the_same_one_the_same() -> None:
    drawn = [pick(ALL, SKILLS, 3, number=number) for number in range(6)]
    assert len({tuple(one) for one in drawn}) > 1
    assert drawn[4] == pick(ALL[::-1], SKILLS, 3, number=4)


ONE = (
    "A port office keeps tide tables as CSV files of several years. It merges them by station and hour, rejects rows"
    " with impossible heights, and writes one clean table with a report of what was rejected and why."
)
SAME = (
    "A port office has tide tables of several years in CSV files; it joins them by station and hour, throws out rows"
    " whose heights are impossible, and writes a single clean table plus a report on the rejected rows and the reasons."
)
OTHER = (
    "A port office plans the berths of next week from a list of ships. It sorts the arrivals, fits lengths to quays,"
    " and writes a timetable in JSON with the ships that must wait outside."
)


def test_the_same_scenario_in_other_words_is_refused_and_named() -> None:
    embedder = SentenceTransformersEmbedder("float32")
    one, same, other = embedder.encode([ONE, SAME, OTHER])
    assert float(np.dot(one, same)) > SAME_SCENARIO > float(np.dot(one, other))
    items = [judged("s-0", "s-1", scenario=ONE, verifiable=5), judged("s-2", "s-3", scenario=SAME)]
    items.append(judged("s-4", "s-5", scenario=OTHER, verifiable=3))
    found = select(items, SKILLS, count=3, history=History(), embedder=embedder)
    assert [item.candidate.skills for item in found.items] == [("s-0", "s-1"), ("s-4", "s-5")]
    assert found.repeated == {items[1].candidate.id: items[0].candidate.id}
    before = History(scenarios=(("260101-aa", SAME),))
    found = select(items, SKILLS, count=3, history=before, embedder=embedder)
    assert set(found.repeated.values()) == {"260101-aa"}


def test_keys_carry_the_day_and_the_pair_and_come_sorted() -> None:
    chosen = select(ALL, SKILLS, count=4, history=History(), embedder=HashEmbedder()).items
    seeds = seeds_of(chosen, SKILLS, DAY)
    assert [seed.key for seed in seeds] == sorted(seed.key for seed in seeds)
    assert len(seeds) == 4
    for seed in seeds:
        assert seed.key == f"260309-{digest(list(seed.skills))[:12]}"
        assert seed.candidate == pair_id(*seed.skills)
        assert seed.families == tuple(SKILLS[ident].family for ident in seed.skills)
