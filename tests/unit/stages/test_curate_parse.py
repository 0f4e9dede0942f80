"""Each malformation that public skills show, as a written twin, is read or dropped as the table says."""

from __future__ import annotations

from pathlib import Path

import pytest

from facet_dagster.stages.curate import clean
from facet_dagster.stages.curate.matter import read_lines, read_yaml
from facet_dagster.stages.curate.parse import Parsed, decode, first_paragraph, headings, parse

FIXTURES = Path(__file__).parents[2] / "fixtures" / "skills"

# fixture, description begins with, a note that must be there (empty: there must be none)
READABLE = [
    ("plain", "Make a tide table from", ""),
    ("no_front_matter", "Read the gauge file", "no front matter"),
    ("text_after_quote", "Make a tide table from", "front matter read line by line"),
    ("unquoted_colon", "Make a tide table. Triggers: tide, gauge, harbour", "front matter read line by line"),
    ("block_scalar_header", "Use when a tide table is needed", "front matter read line by line"),
    ("bad_escape", "Reads C:\\path and D:\\queue", "front matter read line by line"),
    ("surrogate_pair", "Make a tide table from", "front matter read line by line"),
    ("line_without_key", "Make a tide table.", "front matter read line by line"),
    ("unbalanced_flow", "Make a tide table.", "front matter read line by line"),
    ("reserved_character", "@harbour tools make", "front matter read line by line"),
    ("star_as_alias", "Make a tide table", "front matter read line by line"),
    ("missing_closing_fence", "Make a tide table.", "closing fence missing"),
    ("missing_opening_fence", "Make a tide table.", "opening fence missing"),
    ("missing_both_fences", "Make a tide table.", "fences missing"),
    ("comment_before_fence", "Make a tide table from", "comment before the front matter"),
    ("text_before_fence", "Make a tide table from", "text before the front matter"),
    ("indented_fence", "Make a tide table.", "odd fence"),
    ("long_fence", "Make a tide table.", "odd fence"),
    ("dash_fence", "Make a tide table.", "odd fence"),
    ("fence_with_blanks", "Make a tide table.", "odd fence"),
    ("code_fence_wrapper", "Make a tide table from", "code fence taken off"),
    ("code_fence_around_matter", "Make a tide table from", "code fence taken off"),
    ("json_front_matter", "Make a tide table.", "JSON front matter"),
    ("json_in_fences", "Make a tide table.", ""),
    ("byte_order_mark", "Make a tide table from", "utf-8 byte order mark"),
    ("utf16_mark", "Make a tide table from", "utf-16-le byte order mark"),
    ("utf16_no_mark", "Make a tide table from", "utf-16-le without a mark"),
    ("crlf", "Make a tide table from", "line ends normalised"),
    ("mixed_line_ends", "Make a tide table from", "line ends normalised"),
    ("cr_only", "Make a tide table from", "line ends normalised"),
    ("control_characters", "Make a tide table from", "control characters removed"),
    ("hidden_characters", "Make a tide table from", "hidden characters removed"),
    ("latin1", "Make a tide table from", "decoded as cp1252"),
    ("gb18030", "Make a tide table from", "decoded as gb18030"),
    ("duplicate_key", "Make a tide table.", "duplicate key name"),
    ("tab_indent", "Make a tide table.", ""),
    ("description_missing", "Read the gauge file", "description missing"),
    ("description_null", "Read the gauge file", "description missing"),
    ("description_list", "tides, harbours", ""),
    ("description_folded", "Make a tide table.", ""),
    ("description_long", "Make a tide table. Make", ""),
    ("date_value", "Make a tide table.", ""),
    ("unhashable_key", "Make a tide table.", "front matter read line by line"),
    ("billion_laughs", "Make a tide table.", "front matter uses aliases or nests too deep"),
    ("deep_nesting", "Make a tide table.", "front matter read line by line"),
]


def read(kind: str, slug: str = "tide-table") -> Parsed:
    text, damaged, notes = decode((FIXTURES / kind / "SKILL.md").read_bytes())
    return parse(text, slug=slug, damaged=damaged, notes=notes)


@pytest.mark.parametrize(("kind", "description", "note"), READABLE, ids=[row[0] for row in READABLE])
def test_a_malformed_skill_is_read_and_the_note_says_what_was_tolerated(kind: str, description: str, note: str) -> None:
    parsed = read(kind)
    assert parsed.name == "tide-table"
    assert parsed.description.startswith(description)
    assert parsed.title in {"Tide Table", "潮汐表"}
    assert parsed.body.lstrip().startswith(("# ", "Exported on Monday."))
    assert note in parsed.notes if note else parsed.notes == ()
    assert clean.check(parsed) is None


DROPPED = [
    ("drop_zero_bytes", "skill.empty"),
    ("drop_link_text", "skill.unreadable"),
    ("drop_binary", "skill.unreadable"),
    ("drop_html", "skill.unreadable"),
    ("drop_archive_header", "skill.unreadable"),
    ("drop_no_title", "skill.no_title"),
    ("drop_heading_only", "skill.empty"),
]


@pytest.mark.parametrize(("kind", "reason"), DROPPED, ids=[row[0] for row in DROPPED])
def test_what_cannot_be_used_is_dropped_for_its_reason(kind: str, reason: str) -> None:
    rejection = clean.check(read(kind))
    assert rejection is not None
    assert rejection.reason == reason


def test_every_fixture_stands_in_a_table() -> None:
    special = {"name_missing", "name_is_number", "name_is_bool", "rule_not_front_matter"}
    known = {row[0] for row in READABLE} | {row[0] for row in DROPPED} | special
    assert {path.name for path in FIXTURES.iterdir()} == known


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
