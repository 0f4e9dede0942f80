"""Details of reading a skill; every malformation has a row in test_malformations.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from facet_dagster.stages.curate.matter import read_lines, read_yaml
from facet_dagster.stages.curate.parse import Parsed, decode, first_paragraph, headings, parse

FIXTURES = Path(__file__).parents[2] / "fixtures" / "skills"


def read(kind: str, slug: str = "tide-table") -> Parsed:
    text, damaged, notes = decode((FIXTURES / kind / "SKILL.md").read_bytes())
    return parse(text, slug=slug, damaged=damaged, notes=notes)


def test_a_missing_name_comes_from_the_folder_then_from_the_title() -> None:
    assert read("name_missing", slug="harbour").name == "harbour"
    assert read("name_missing", slug="").name == "Tide Table"


@pytest.mark.parametrize(("kind", "name"), [("name_is_number", "2048"), ("name_is_bool", "on")])
def test_a_name_stays_text_whatever_yaml_would_make_of_it(kind: str, name: str) -> None:
    assert read(kind).name == name


def test_a_rule_at_the_top_is_not_front_matter_and_stays_in_the_body() -> None:
    parsed = read("rule_not_front_matter")
    assert parsed.matter == {}
    assert "Tides come twice a day." in parsed.body


def test_a_description_is_cut_at_1024_characters() -> None:
    assert len(read("description_long").description) == 1024


def test_the_title_is_the_first_heading_of_level_one() -> None:
    assert parse("---\nname: n\n---\n## Setup\n\n# Real Title\n").title == "Real Title"
    assert parse("---\nname: n\n---\n## Setup\n").title == "n"


def test_headings_in_code_blocks_do_not_count() -> None:
    body = "# One\n```\n# no heading\n```\nTwo\n===\n<h2>Three</h2>\n"
    assert list(headings(body)) == [(1, "One"), (1, "Two"), (2, "Three")]


def test_the_first_paragraph_is_prose() -> None:
    assert first_paragraph("# T\n\n```sh\nls\n```\n\n| a |\n\nThe words.\nMore.\n") == "The words. More."
    assert first_paragraph("# T\n") == ""


def test_yaml_refuses_more_than_64_kib() -> None:
    value, notes = read_yaml("name: x\nfill: " + "y" * 70_000)
    assert value == {}
    assert notes == ["front matter over 64 KiB"]


def test_the_line_reader_joins_continued_lines() -> None:
    assert read_lines("name: 'x'\ndescription: |-\n  one\n  two\n") == {"name": "x", "description": "one two"}


@pytest.mark.parametrize(
    "text", ["", "\n", "---", "---\n---", "```", "{", "{}", "name:", "\x00", "<!--", "# ", "---\n- a\n---"]
)
def test_fragments_never_raise(text: str) -> None:
    assert isinstance(parse(text).name, str)
