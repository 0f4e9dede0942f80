"""Of equal and of similar bodies the best sourced one is kept."""

from __future__ import annotations

import random

import pytest

from facet_dagster.domain.skill import Duplicate, Family, Licence, PackageFacts, Skill
from facet_dagster.stages.curate.dedup import duplicates, rejection

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
    assert found == {"a": Duplicate(of="b", kind="normalised", similarity=1.0)}
    assert rejection(found["a"]).reason == "skill.duplicate"


def test_a_light_edit_is_a_near_duplicate_and_says_how_near() -> None:
    words = text(1)
    found = duplicates([skill("a", " ".join(words)), skill("b", edited(words, 4))])
    why = rejection(found["b"])
    assert (found["b"].of, why.reason) == ("a", "skill.near_duplicate")
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


def test_of_equally_sourced_copies_the_first_that_came_is_kept() -> None:
    words = text(1)
    skills = [skill("b", " ".join(words)), skill("a", edited(words, 3)), skill("c", " ".join(words))]
    assert set(duplicates(skills)) == {"a", "c"}
    assert set(duplicates(skills[::-1])) == {"a", "b"}


def test_what_comes_later_changes_no_decision_on_the_others() -> None:
    rng = random.Random(5)
    skills = [skill(str(n), edited(text(n % 30), rng.randrange(4))) for n in range(90)]
    before = duplicates(skills[:60])
    after = duplicates(skills)
    assert {ident: after[ident] for ident in before} == before
    assert not {s.id for s in skills[:60]} & (set(after) - set(before))


def test_a_duplicate_points_to_a_kept_skill() -> None:
    words = text(1)
    skills = [skill("a", " ".join(words)), skill("b", edited(words, 3)), skill("c", edited(words, 3))]
    found = duplicates(skills)
    assert {double.of for double in found.values()} == {"a"}
    assert {ident: double.kind for ident, double in found.items()} == {"b": "near", "c": "near"}


def test_scripts_without_blanks_are_compared_by_character() -> None:
    body = "".join(random.Random(3).choices("潮汐表水位港口洪每天最高写入读取文件名称排序", k=400))
    found = duplicates([skill("a", body), skill("b", body[:200] + "新" + body[201:])])
    assert found["b"].kind == "near"


@pytest.mark.parametrize("body", ["", "one", "one two three"])
def test_very_short_bodies_are_compared_whole(body: str) -> None:
    assert set(duplicates([skill("b", body), skill("a", body)])) == {"a"}
