"""The taxonomy report: counts beside the paper's, and its picture."""

from __future__ import annotations

from pathlib import Path

import pytest

from facet_dagster.domain.seed import TaskFamily
from facet_dagster.domain.skill import Family, Licence, Skill
from facet_dagster.domain.taxonomy import Category, Classification, Tier
from facet_dagster.errors import ConfigError
from facet_dagster.reports.taxonomy import PAPER_FAMILIES, PAPER_SKILLS, Taxonomy, taxonomy, write


def skill(number: int, category: Category | None, tier: Tier = Tier.OFFLINE) -> Skill:
    known = category and Classification(
        category=category,
        margin=0.1,
        sure=number % 2 == 0,
        task=TaskFamily.STRUCTURED_DATA,
        tier=tier,
        dense=number > 0,
    )
    return Skill(
        id=f"s-{number}",
        name="n",
        title="n",
        description="",
        body="b",
        family=Family.DATA,
        licence=Licence(spdx="MIT", allowed=True, evidence="test"),
        source="folder",
        origin="o",
        classified=known,
    )


@pytest.fixture
def found() -> Taxonomy:
    kinds = [Category.DATA_TABLES, Category.DATA_TABLES, Category.DATA_DATABASES, Category.MULTIMEDIA_WRITING, None]
    return taxonomy(skill(n, kind, Tier.MOCK if n == 3 else Tier.OFFLINE) for n, kind in enumerate(kinds))


def test_counts_and_shares_are_of_the_classified(found: Taxonomy) -> None:
    lines = {line.name: line for line in (*found.families, *found.categories)}
    assert found.skills == 4
    assert (lines["data"].skills, lines["data"].share) == (3, 0.75)
    assert (lines["data.tables"].skills, lines["data.tables"].share) == (2, 0.5)
    assert lines["data.tables"].within == 0.6667
    assert lines["ai"].skills == lines["ai.mcp"].skills == lines["ai.mcp"].within == 0
    assert sum(line.skills for line in found.categories) == sum(line.skills for line in found.families) == 4
    assert (found.tiers[Tier.OFFLINE], found.tiers[Tier.MOCK], found.tiers[Tier.NOT_TERMINAL]) == (3, 1, 0)
    assert (found.tasks[TaskFamily.STRUCTURED_DATA], found.sure, found.dense, found.other_family) == (4, 2, 3, 1)


def test_the_papers_figures_are_its_own(found: Taxonomy) -> None:
    lines = {line.name: line for line in (*found.families, *found.categories)}
    assert sum(PAPER_FAMILIES.values()) == PAPER_SKILLS
    assert (lines["multimedia"].paper_share, lines["ai"].paper_share) == (0.2442, 0.2128)
    tables = lines["data.tables"]
    assert (tables.paper_skills, tables.paper_share, tables.paper_within) == (1544, 0.0216, 0.1244)
    assert (lines["ai.multi_agent"].paper_share, lines["ai.multi_agent"].paper_within) == (0.0201, 0.0945)
    ours = [line for line in found.categories if line.ours]
    assert [line.paper_skills for line in ours] == [None] * 4


def test_nothing_classified_is_no_division(found: Taxonomy) -> None:
    assert {line.share for line in taxonomy([]).categories} == {0.0}


def test_pictures_and_values_are_written_and_the_same_skills_give_the_same_bytes(
    found: Taxonomy, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    first, second = write(found, tmp_path / "a" / "b"), write(found, tmp_path / "c")
    assert [path.name for path in first] == ["taxonomy.json", "taxonomy.svg", "taxonomy.png"]
    assert [path.read_bytes() for path in first[:2]] == [path.read_bytes() for path in second[:2]]
    assert Taxonomy.model_validate_json(first[0].read_text()) == found
    text = first[1].read_text()
    assert text.startswith("<?xml")
    assert first[2].read_bytes().startswith(b"\x89PNG")


def test_a_folder_that_cannot_be_made_is_one_sentence(found: Taxonomy, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="Cannot write the report"):
        write(found, tmp_path / "file" / "below")
