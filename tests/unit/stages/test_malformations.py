"""What public skills look like, kind by kind, and the outcome that each kind is meant to have.

Every row is judged on a twin written by hand (tests/fixtures/skills). Where FACET_SAMPLE names a table of real skills
with a column ``stratum``, the same row is judged on its whole stratum there: so many are dropped for a reason that
says something about their content, and all others are kept, with the note.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from facet_dagster.domain.ids import digest
from facet_dagster.domain.outcome import Rejection
from facet_dagster.domain.skill import RawSkill, Skill
from facet_dagster.stages.collect import collect
from facet_dagster.stages.curate import Policy, examine, masked

FIXTURES = Path(__file__).parents[2] / "fixtures" / "skills"
SAMPLE = os.environ.get("FACET_SAMPLE", "")
ANY_LICENCE = Policy(unknown_licence=True)
LINES = "front matter read line by line"
NO_MATTER, NO_NAME, NO_TEXT = "no front matter", "name missing", "description missing"
UNFENCED = ("opening fence missing", "closing fence missing", NO_MATTER)
CRLF, HIDDEN, CONTROL = "line ends normalised", "hidden characters removed", "control characters removed"


@dataclass(frozen=True)
class Row:
    """``outcome``: empty (read as it is), a note (recovered), or a reason (dropped).

    ``stratum`` is the kind's name in the sample; ``lost`` says how many of it are dropped, and why; ``notes`` are
    others that mean the same there.
    """

    fixture: str
    outcome: str = ""
    begins: str = "Make a tide table"
    stratum: str = ""
    lost: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


ROWS = [
    Row("plain"),
    # Front matter that is no YAML
    Row("no_front_matter", NO_MATTER, "Read the", "no_front_matter", {"skill.unreadable": 8, "skill.empty": 2}),
    Row("text_after_quote", LINES, stratum="yaml_error:bad_indent_or_text_after_quote"),
    Row("unquoted_colon", LINES, "Make a tide table. Triggers: tide", "yaml_error:unquoted_colon_in_value"),
    Row("block_scalar_header", LINES, "Use when a tide table", "yaml_error:bad_block_scalar_header"),
    Row("bad_escape", LINES, "Reads C:\\path and D:\\queue", "yaml_error:bad_escape_in_double_quotes"),
    Row("surrogate_pair", LINES),
    Row("line_without_key", LINES, stratum="yaml_error:line_without_key_colon", notes=("closing fence missing",)),
    Row("unbalanced_flow", LINES, stratum="yaml_error:bad_flow_collection"),
    Row("flow_of_two_lists", LINES),
    Row("escaped_bracket", LINES),
    Row("reserved_character", LINES, "@harbour tools make", "yaml_error:value_starts_with_reserved_char"),
    Row("reserved_in_a_list", LINES),
    Row("star_as_alias", LINES, "Make", "yaml_error:star_read_as_alias", {"skill.unsafe": 1}, UNFENCED),
    Row("star_in_a_list", LINES),
    Row("ampersand_as_anchor", LINES, "&Make a tide table. For R&D", "yaml_error:amp_read_as_anchor"),
    Row("unhashable_key", LINES, stratum="yaml_error:unhashable_key"),
    Row("billion_laughs", LINES),
    Row("deep_nesting", LINES),
    Row("matter_is_a_list", "front matter is not a mapping", "Read the gauge"),
    Row("empty_front_matter", "front matter is not a mapping", "Read the gauge"),
    Row("rule_not_front_matter", "front matter is not a mapping", "Tides come twice"),
    Row("json_front_matter", "JSON front matter"),
    Row("json_in_fences"),
    Row("tab_indent"),
    Row("duplicate_key", "duplicate key name"),
    Row("duplicate_key_nested"),
    # Fences
    Row("missing_closing_fence", "closing fence missing"),
    Row("missing_opening_fence", "opening fence missing"),
    Row("missing_both_fences", "fences missing"),
    Row("comment_before_fence", "comment before the front matter"),
    Row("text_before_fence", "text before the front matter"),
    Row(
        "indented_fence",
        "odd fence",
        stratum="odd_fence",
        lost={"skill.prompt_injection": 1, "skill.empty": 1},
        notes=("text before the front matter", "code fence taken off", *UNFENCED),
    ),
    Row("long_fence", "odd fence"),
    Row("dash_fence", "odd fence"),
    Row("fence_with_blanks", "odd fence"),
    Row("lead_blank", "odd fence", stratum="lead_blank"),
    Row("code_fence_wrapper", "code fence taken off"),
    Row("code_fence_around_matter", "code fence taken off"),
    # Characters
    Row("byte_order_mark", "utf-8 byte order mark", stratum="bom"),
    Row("utf16_mark", "utf-16-le byte order mark"),
    Row("utf16_no_mark", "utf-16-le without a mark"),
    Row("crlf", CRLF, stratum="crlf", lost={"skill.unsafe": 1}),
    Row("mixed_line_ends", CRLF),
    Row("cr_only", CRLF),
    Row("control_characters", CONTROL),
    Row("nul_bytes", CONTROL),
    Row("hidden_characters", HIDDEN, stratum="zero_width"),
    Row("invalid_utf8", "undecodable bytes replaced"),
    Row("latin1", "decoded as cp1252"),
    Row("gb18030", "decoded as gb18030"),
    Row("mojibake", "wrongly decoded characters left", stratum="mojibake"),
    # Name and description
    Row("name_missing", NO_NAME),
    Row("name_is_number", stratum="name_missing_or_nonstring"),
    Row("name_is_bool"),
    Row("name_capitals", stratum="name_invalid", lost={"skill.unsafe": 1}),
    Row("name_long", "name cut"),
    Row("name_left_unfilled"),
    Row("name_not_the_folder"),
    Row("description_missing", NO_TEXT, "Read the", "desc_missing_or_nonstring", {"skill.empty": 1}),
    Row("description_null", NO_TEXT, "Read the gauge"),
    Row("description_list", begins="tides, harbours"),
    Row("description_number", begins="2048"),
    Row("description_folded"),
    Row("description_lines", begins="Make a tide table. Use it for harbours and for gauges."),
    Row("description_long", "description cut", stratum="desc_over_1024"),
    Row("description_short", begins="Tides."),
    Row("description_with_tag", begins="Make a <b>tide</b> table."),
    # Other keys
    Row("metadata_inline_json", stratum="metadata_inline_json", lost={"skill.unsafe": 1}),
    Row("metadata_json_block"),
    Row("metadata_json_text", stratum="metadata_string"),
    Row("metadata_null"),
    Row("tools_text"),
    Row("tools_mapping"),
    Row("version_float", stratum="version_nonstring"),
    Row("date_value", stratum="date_value"),
    Row("extra_keys"),
    # Bodies
    Row("unbalanced_code_fence"),
    Row("long_line", stratum="long_line"),
    Row("html_heavy", stratum="html_heavy"),
    Row("script_tag", stratum="script_tag"),
    Row("base64_blob", stratum="base64_blob"),
    Row("drop_zero_bytes", "skill.empty"),
    Row("drop_heading_only", "skill.empty"),
    Row("drop_short_body", "skill.empty"),
    Row("drop_no_title", "skill.no_title"),
    Row("drop_link_text", "skill.unreadable", stratum="symlink", lost={"skill.unreadable": 14}),
    Row("drop_link_up", "skill.unreadable"),
    Row("drop_binary", "skill.unreadable"),
    Row("drop_zip", "skill.unreadable"),
    Row("drop_html", "skill.unreadable"),
    Row("drop_archive_header", "skill.unreadable", stratum="invalid_utf8", lost={"skill.unreadable": 4}),
    # What is dangerous or private, and what only talks about it
    Row("drop_pipe_to_shell", "skill.unsafe", stratum="curl_pipe_shell", lost={"skill.unsafe": 7}),
    Row("drop_archive_password", "skill.unsafe", stratum="pw_protected_zip", lost={"skill.unsafe": 1}),
    Row("drop_hidden_code", "skill.unsafe", stratum="base64_pipe_shell", lost={"skill.unsafe": 6}),
    Row("drop_reverse_shell", "skill.unsafe", stratum="exfil_sink", lost={"skill.unsafe": 4}),
    Row("drop_injection", "skill.prompt_injection", stratum="prompt_injection", lost={"skill.prompt_injection": 2}),
    Row("drop_private_host", "skill.private_network", stratum="private_ip", lost={"skill.private_network": 2}),
    Row("drop_company_network", "skill.private_network", stratum="vpn_intranet", lost={"skill.private_network": 1}),
    Row("attack_quoted", begins="Scan skills", stratum="rm_rf_dangerous"),
    Row("attack_quoted", begins="Scan skills", stratum="reverse_shell"),
    Row("attack_quoted", begins="Scan skills", stratum="crypto_miner"),
    Row("attack_quoted", begins="Scan skills", stratum="offensive_security"),
    Row("injection_quoted", begins="Scan skills"),
    Row("known_installer"),
    Row("private_address_as_example", stratum="private_host"),
    Row("safety_switched_off", stratum="disable_safety"),
    Row("secret_inside", "secret masked"),
    Row("plain", stratum="secret_like"),
    Row("plain", stratum="secret_paths", lost={"skill.private_network": 1}),
    Row("plain", stratum="huge"),
    Row("plain", stratum="lang_zh"),
    Row("plain", stratum="lang_other"),
    Row("drop_heading_only", "skill.empty", stratum="empty_or_tiny", lost={"skill.empty": 3, "skill.unreadable": 10}),
]


def judged(raw: RawSkill, data: bytes) -> Skill | Rejection:
    """As an ingest and the asset after it do: masked, then read from what was stored."""
    return examine(*masked(raw, data), ANY_LICENCE)


def twin(fixture: str) -> Skill | Rejection:
    data = (FIXTURES / fixture / "SKILL.md").read_bytes()
    raw = RawSkill(id="a-1", source="folder", origin="x", slug="tide-table", text=digest(data), size=len(data))
    return judged(raw, data)


@cache
def sample() -> dict[str, list[Skill | Rejection]]:
    found: dict[str, list[Skill | Rejection]] = {}
    strata = pl.read_parquet(SAMPLE, columns=["stratum"])["stratum"]
    for stratum, (raw, data) in zip(strata, collect(Path(SAMPLE)), strict=True):
        found.setdefault(stratum, []).append(judged(raw, data))
    return found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.fixture}-{row.stratum}".rstrip("-"))
def test_each_kind_has_its_intended_outcome(row: Row) -> None:
    found = twin(row.fixture)
    if row.outcome.startswith("skill."):
        assert isinstance(found, Rejection)
        assert found.reason == row.outcome
    else:
        assert isinstance(found, Skill)
        assert found.description.startswith(row.begins)
        assert row.outcome in found.notes if row.outcome else found.notes == ()
    if SAMPLE and row.stratum:
        in_the_sample(row)


def in_the_sample(row: Row) -> None:
    real = sample()[f"awkward:{row.stratum}"]
    assert Counter(str(one.reason) for one in real if isinstance(one, Rejection)) == row.lost
    if row.outcome and not row.outcome.startswith("skill."):
        wanted = {row.outcome, *row.notes}
        assert [one.id for one in real if isinstance(one, Skill) and not wanted & set(one.notes)] == []


def test_every_twin_stands_in_the_table() -> None:
    assert {path.name for path in FIXTURES.iterdir()} == {row.fixture for row in ROWS}


@pytest.mark.skipif(not SAMPLE, reason="FACET_SAMPLE names no table of real skills")
def test_every_stratum_of_the_sample_stands_in_the_table_and_nine_of_ten_random_skills_survive() -> None:
    awkward = {name.partition(":")[2] for name in sample() if name.startswith("awkward:")}
    assert awkward == {row.stratum for row in ROWS if row.stratum}
    for name, found in sample().items():
        if name.startswith("random:"):
            assert sum(isinstance(one, Skill) for one in found) >= 0.9 * len(found), name


def test_a_skill_of_a_mebibyte_is_dropped_by_its_size() -> None:
    data = b"# Tide\n\n" + b"Read the gauge file. " * 50_000
    raw = RawSkill(id="a-1", source="folder", origin="x", text=digest(data), size=len(data))
    found = judged(raw, data)
    assert isinstance(found, Rejection)
    assert (found.reason, found.evidence) == ("skill.oversized", {"size": len(data)})
    assert masked(raw, data)[1] == b""
