"""The Debian mirror is read from whatever apt sources a machine has."""

from __future__ import annotations

from pathlib import Path

import pytest

from facet_dagster.setup.apt_sources import (
    Mirror,
    Source,
    find_mirror,
    parse_deb822,
    parse_list,
    read_host,
    split_suite,
)
from facet_dagster.setup.errors import SetupError

ONE_LINE = """\
# deb http://old.example/debian bookworm main
deb [arch=amd64 signed-by=/usr/share/keyrings/x.gpg] http://mirror.example/debian/ bookworm main contrib # ours
deb-src http://mirror.example/debian bookworm main
deb http://mirror.example/debian-security bookworm-security main
deb ./
"""

STANZAS = """\
Types: deb deb-src
# a comment between fields
URIs: http://mirror.example/debian
Suites: trixie
 trixie-updates
Components: main

Types: deb
URIs: http://mirror.example/off
Suites: trixie
Components: main
Enabled: no

Types: deb
URIs: http://mirror.example/security/
Suites: trixie-security
Components: main
"""


def test_one_line_format_keeps_only_enabled_binary_archives() -> None:
    assert parse_list(ONE_LINE) == [
        Source("http://mirror.example/debian/", "bookworm", ("main", "contrib")),
        Source("http://mirror.example/debian-security", "bookworm-security", ("main",)),
    ]


def test_stanza_format_expands_suites_and_leaves_out_disabled_ones() -> None:
    assert parse_deb822(STANZAS) == [
        Source("http://mirror.example/debian", "trixie", ("main",)),
        Source("http://mirror.example/debian", "trixie-updates", ("main",)),
        Source("http://mirror.example/security/", "trixie-security", ("main",)),
    ]


def test_mirror_and_security_archive_are_told_apart() -> None:
    mirror = find_mirror(parse_list(ONE_LINE))
    assert mirror == Mirror("http://mirror.example/debian", "http://mirror.example/debian-security")


def test_archives_of_other_vendors_are_not_taken_for_debian() -> None:
    others = [
        Source("http://vendor.example/apt", "cloud-sdk-bookworm", ("main",)),
        Source("http://u.example", "noble", ("main",)),
    ]
    assert find_mirror(others) is None


def test_the_suite_is_replaced_in_every_line() -> None:
    mirror = Mirror("http://m.example/debian", "http://m.example/security")
    assert mirror.lines("trixie") == (
        "deb http://m.example/debian trixie main",
        "deb http://m.example/debian trixie-updates main",
        "deb http://m.example/security trixie-security main",
    )
    assert len(Mirror("http://m.example/debian", None).lines("trixie")) == 2


@pytest.mark.parametrize(
    ("suite", "parts"),
    [
        ("bookworm", ("bookworm", "")),
        ("bullseye/updates", ("bullseye", "/updates")),
        ("sid-updates", ("sid", "-updates")),
    ],
)
def test_a_suite_splits_into_release_and_pocket(suite: str, parts: tuple[str, str]) -> None:
    assert split_suite(suite) == parts


def test_both_formats_of_a_machine_are_read(tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text("deb http://vendor.example/apt stable contrib\n")
    (tmp_path / "sources.list.d" / "debian.sources").write_text(STANZAS)
    (tmp_path / "sources.list.d" / "ignored.save").write_text("deb http://wrong.example/debian bookworm main\n")
    assert read_host({}, tmp_path) == Mirror("http://mirror.example/debian", "http://mirror.example/security")


def test_a_mirror_list_file_is_replaced_by_its_first_mirror(tmp_path: Path) -> None:
    listed = tmp_path / "debian.list"
    listed.write_text("# mirrors\nhttp://first.example/debian\tpriority:1\nhttp://second.example/debian\n")
    (tmp_path / "sources.list").write_text(f"deb mirror+file:{listed} bookworm main\n")
    assert read_host({}, tmp_path).main == "http://first.example/debian"


def test_the_setting_wins_over_the_machine(tmp_path: Path) -> None:
    (tmp_path / "sources.list").write_text(ONE_LINE)
    assert read_host({"FACET_DEBIAN_MIRROR": "http://set.example/d/"}, tmp_path) == Mirror("http://set.example/d", None)


def test_a_machine_without_debian_is_told_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "sources.list").write_text("deb http://u.example/ubuntu noble main\n")
    with pytest.raises(SetupError, match="set FACET_DEBIAN_MIRROR"):
        read_host({}, tmp_path)
