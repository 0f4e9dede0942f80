"""Hypotheses out of a skill's own words: each is a passage that stands where it says."""

from __future__ import annotations

import pytest

from facet_dagster.domain.facts import HypothesisFact
from facet_dagster.domain.seed import SkillHypotheses, TaskFamily
from facet_dagster.domain.skill import Family, Licence, Skill
from facet_dagster.domain.taxonomy import Category, Classification, Tier
from facet_dagster.stages.extract import MOST, extract

BODY = """# Tides

## When to use this skill

- A harbour **must** merge two `csv` tide tables of one year into a JSON file.
- Somebody asks whether a ship can leave at noon, from the tide table.

## When not to use it

- For rivers without any tide at all, which have no table.

## Steps

1. Read the first table and then the second one.
"""


def skill(description: str = "Merge tide tables.", body: str = BODY, classified: Classification | None = None) -> Skill:
    return Skill(
        id="folder-aa",
        name="tide-table",
        title="Tide Table",
        description=description,
        body=body,
        family=Family.DATA,
        licence=Licence(spdx="MIT", allowed=True, evidence="test"),
        source="folder",
        origin="a/b/SKILL.md",
        classified=classified,
    )


def read(found: Skill) -> SkillHypotheses:
    value = extract(found).value
    assert isinstance(value, SkillHypotheses)
    return value


def places(found: Skill) -> list[str]:
    return [(found.body if s.part == "body" else found.description)[s.start : s.end] for s in read(found).spans]


def test_items_of_the_section_on_use_come_first_with_their_places() -> None:
    value = read(skill())
    assert [h.situation for h in value.reply.hypotheses[:2]] == [
        "A harbour must merge two csv tide tables of one year into a JSON file.",
        "Somebody asks whether a ship can leave at noon, from the tide table.",
    ]
    assert value.reply.hypotheses[0].inputs == ["csv", "json"]
    assert places(skill())[:2] == [
        "A harbour **must** merge two `csv` tide tables of one year into a JSON file.",
        "Somebody asks whether a ship can leave at noon, from the tide table.",
    ]
    assert value.extracted
    assert [span.operation for span in value.spans] == [f"H{n}" for n in range(1, len(value.spans) + 1)]


def test_what_the_skill_is_not_for_is_no_hypothesis() -> None:
    assert not any("rivers" in passage for passage in places(skill()))


DESCRIPTIONS = {
    "Make tables. Use when a table is late. Fast.": ["Use when a table is late."],
    "Use when: (1) a harbour closes early, (2) a ship is overdue in fog, (3) a pilot asks for help.": [
        "a harbour closes early",
        "a ship is overdue in fog",
        "a pilot asks for help",
    ],
    "Only says what it is. And more.": ["Only says what it is."],
    "合并潮汐表。适用于港口合并两张潮汐表的场景。": ["适用于港口合并两张潮汐表的场景。"],
    "": [],
}


@pytest.mark.parametrize(("description", "wanted"), DESCRIPTIONS.items())
def test_without_such_a_section_the_description_speaks(description: str, wanted: list[str]) -> None:
    assert places(skill(description, "# Tides\n\nNothing else.\n")) == wanted


def test_at_most_three_are_kept_and_long_ones_are_shortened() -> None:
    body = "## When to use\n\n" + "".join(f"- Case {n}: {'word ' * 100}\n" for n in range(9))
    value = read(skill(body=body))
    assert len(value.reply.hypotheses) == MOST == len(value.spans)
    assert all(len(h.title.split()) <= 12 and len(h.situation.split()) <= 60 for h in value.reply.hypotheses)


@pytest.mark.parametrize("dense", [True, False])
def test_tags_and_density_are_those_of_the_classification(dense: bool) -> None:
    known = Classification(
        category=Category.DATA_TABLES,
        margin=0.2,
        sure=True,
        task=TaskFamily.STRUCTURED_DATA,
        tier=Tier.OFFLINE,
        dense=dense,
        tags=("csv",),
    )
    value = read(skill(classified=known))
    assert (value.reply.concrete, value.reply.tags) == (dense, ["csv"])
    assert not read(skill()).reply.concrete


def test_each_hypothesis_is_a_fact() -> None:
    outcome = extract(skill())
    assert all(isinstance(fact, HypothesisFact) for fact in outcome.facts)
    assert len(outcome.facts) == outcome.numbers["hypotheses"] == 3


def test_what_was_stored_before_keeps_its_digest() -> None:
    from facet_dagster.domain.ids import to_json

    plain = SkillHypotheses(skill_id="a", reply=read(skill()).reply)
    assert "spans" not in to_json(plain)
    assert "extracted" not in to_json(plain)
