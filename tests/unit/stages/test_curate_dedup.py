"""Of equal and of similar bodies the best sourced one is kept."""

from __future__ import annotations

import random

import pytest

from facet_dagster.domain.skill import Family, Licence, PackageFacts, Skill
from facet_dagster.stages.curate.dedup import duplicates

WORDS = [f"word{n}" for n in range(400)]


def text(seed: int, length: int = 300) -> list[str]:
    return random.Random(seed).choices(WORDS, k=length)


def skill(ident: str, body: str, *, allowed: bool = True, facts: PackageFacts | None = None) -> Skill:
    return Skill(
        id=ident,
        name=ident,
        title=ident,
        description="",
        body=body,
        family=Family.DATA,
        licence=Licence(spdx="MIT", allowed=allowed, evidence="test"),
        source="folder",
        origin=ident,
        facts=facts or PackageFacts(),
    )


def edited(words: list[str], count: int) -> str:
    places = random.Random(1).sample(range(len(words)), count)
    return " ".join("changed" if n in places else word for n, word in enumerate(words))


@pytest.mark.parametrize("change", [str.upper, lambda s: s.replace(" ", "\n\n "), lambda s: f"  {s}\n"])
def test_case_and_blanks_make_no_difference(change: object) -> None:
    body = " ".join(text(1))
    found = duplicates([skill("b", change(body)), skill("a", body)])  # type: ignore[operator]
    assert {ident: (of, why.reason.value) for ident, (of, why) in found.items()} == {"b": ("a", "skill.duplicate")}


def test_a_light_edit_is_a_near_duplicate_and_says_how_near() -> None:
    words = text(1)
    found = duplicates([skill("a", " ".join(words)), skill("b", edited(words, 4))])
    of, why = found["b"]
    assert (of, why.reason) == ("a", "skill.near_duplicate")
    assert 0.8 <= why.evidence["similarity"] < 1


@pytest.mark.parametrize("count", [20, 60, 300])
def test_a_heavy_edit_is_another_skill(count: int) -> None:
    words = text(1)
    assert duplicates([skill("a", " ".join(words)), skill("b", edited(words, count))]) == {}


def test_different_texts_are_kept() -> None:
    assert duplicates([skill(str(n), " ".join(text(n))) for n in range(50)]) == {}


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({}, {"allowed": False}),
        ({"facts": PackageFacts(scripts=("scripts/a.py",))}, {}),
        ({"facts": PackageFacts(references=("references/a.md",))}, {"facts": PackageFacts(files=9)}),
        ({"facts": PackageFacts(files=2)}, {}),
    ],
)
def test_the_better_sourced_copy_is_kept_whatever_its_id(better: dict[str, object], worse: dict[str, object]) -> None:
    body = " ".join(text(1))
    assert set(duplicates([skill("a", body, **worse), skill("b", body, **better)])) == {"a"}  # type: ignore[arg-type]


def test_the_order_of_the_input_does_not_matter() -> None:
    words = text(1)
    skills = [skill("a", " ".join(words)), skill("b", edited(words, 3)), skill("c", " ".join(words))]
    assert duplicates(skills) == duplicates(skills[::-1])


def test_a_duplicate_points_to_a_kept_skill() -> None:
    words = text(1)
    skills = [skill("a", " ".join(words)), skill("b", edited(words, 3)), skill("c", edited(words, 3))]
    found = duplicates(skills)
    assert {of for of, _ in found.values()} == {"a"}
    assert set(found) == {"b", "c"}


def test_scripts_without_blanks_are_compared_by_character() -> None:
    body = "".join(random.Random(3).choices("潮汐表水位港口洪每天最高写入读取文件名称排序", k=400))
    found = duplicates([skill("a", body), skill("b", body[:200] + "新" + body[201:])])
    assert found["b"][1].reason == "skill.near_duplicate"


@pytest.mark.parametrize("body", ["", "one", "one two three"])
def test_very_short_bodies_are_compared_whole(body: str) -> None:
    assert set(duplicates([skill("a", body), skill("b", body)])) == {"b"}
