"""Collecting finds every SKILL.md, follows no link out of a package, and gives ids that do not depend on the place."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from facet_dagster.domain.ids import digest
from facet_dagster.domain.skill import RawSkill
from facet_dagster.errors import ConfigError
from facet_dagster.stages.collect import CAP, collect, collect_folder, collect_parquet

TEXT = "---\nname: tide\n---\n# Tide\n"


def package(root: Path, place: str, text: str = TEXT, name: str = "SKILL.md") -> Path:
    folder = root / place
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def only(path: Path) -> RawSkill:
    (raw, _), *rest = collect(path)
    assert not rest
    return raw


@pytest.mark.parametrize("name", ["SKILL.md", "skill.md", "Skill.md", "SKILL.MD"])
def test_the_file_is_found_in_any_letter_case(tmp_path: Path, name: str) -> None:
    package(tmp_path, "anna/tide", name=name)
    raw = only(tmp_path)
    assert (raw.owner, raw.slug, raw.origin) == ("anna", "tide", f"anna/tide/{name}")


def test_ids_are_the_same_wherever_the_tree_lies(tmp_path: Path) -> None:
    for place in ("here", "there/deep"):
        package(tmp_path / place, "anna/tide")
        package(tmp_path / place, "bert/tide")
    here = [raw.id for raw, _ in collect_folder(tmp_path / "here")]
    assert here == [raw.id for raw, _ in collect_folder(tmp_path / "there/deep")]
    assert len(set(here)) == 2
    assert all(ident.startswith("folder-") and len(ident) == len("folder-") + 32 for ident in here)


def test_text_is_the_digest_of_the_bytes(tmp_path: Path) -> None:
    package(tmp_path, "anna/tide")
    [(raw, data)] = collect(tmp_path)
    assert data == TEXT.encode()
    assert (raw.text, raw.size) == (digest(data), len(data))


def test_meta_json_names_owner_slug_and_licence(tmp_path: Path) -> None:
    folder = package(tmp_path, "x/y")
    (folder / "_meta.json").write_text(json.dumps({"owner": "anna", "slug": "tide", "license": "MIT"}))
    raw = only(tmp_path)
    assert (raw.owner, raw.slug, raw.licence_hint) == ("anna", "tide", "_meta.json: MIT")


@pytest.mark.parametrize("text", ["[1]", "{", "[" * 60_000, '{"owner": 3, "slug": []}'])
def test_a_broken_meta_json_is_ignored(tmp_path: Path, text: str) -> None:
    folder = package(tmp_path, "anna/tide")
    (folder / "_meta.json").write_text(text)
    assert only(tmp_path).slug == "tide"


def test_licence_files_of_the_package_and_above_it_are_hints_the_closest_first(tmp_path: Path) -> None:
    folder = package(tmp_path, "anna/tide")
    (folder / "LICENSE.txt").write_text("MIT License\n\nCopyright")
    (tmp_path / "LICENSE").write_text("Apache License\nVersion 2.0")
    lines = only(tmp_path).licence_hint.split("\n")
    assert [line.partition(":")[0] for line in lines] == ["package LICENSE", "repository LICENSE"]


def test_package_facts_name_scripts_and_references(tmp_path: Path) -> None:
    folder = package(tmp_path, "anna/tide")
    for name in ("scripts/run.py", "references/a.md", "notes.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("x")
    facts = only(tmp_path).facts
    assert (facts.files, facts.scripts, facts.references) == (4, ("scripts/run.py",), ("references/a.md",))


def test_a_package_inside_a_package_counts_on_its_own(tmp_path: Path) -> None:
    package(tmp_path, "anna/tide")
    package(tmp_path, "anna/tide/inner")
    raws = [raw for raw, _ in collect(tmp_path)]
    assert [raw.origin for raw in raws] == ["anna/tide/SKILL.md", "anna/tide/inner/SKILL.md"]
    assert [raw.facts.files for raw in raws] == [1, 1]


def test_a_link_out_of_the_package_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("secret")
    folder = tmp_path / "tree" / "anna" / "tide"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").symlink_to("../../../secret.md")
    [(raw, data)] = collect(tmp_path / "tree")
    assert data == b"../../../secret.md"
    assert raw.size == len(data)


def test_a_link_inside_the_package_is_followed_and_a_loop_is_not(tmp_path: Path) -> None:
    good = tmp_path / "a" / "good"
    good.mkdir(parents=True)
    (good / "text.md").write_text(TEXT)
    (good / "SKILL.md").symlink_to("text.md")
    loop = tmp_path / "a" / "loop"
    loop.mkdir()
    (loop / "SKILL.md").symlink_to("SKILL.md")
    assert [data for _, data in collect(tmp_path)] == [TEXT.encode(), b"SKILL.md"]


def test_a_linked_folder_is_not_entered(tmp_path: Path) -> None:
    package(tmp_path / "outside", "bert/tide")
    package(tmp_path / "tree", "anna/tide")
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "outside")
    assert only(tmp_path / "tree").owner == "anna"


def test_a_giant_file_is_not_read_and_keeps_its_size(tmp_path: Path) -> None:
    package(tmp_path, "anna/tide", "x" * (CAP + 1))
    [(raw, data)] = collect(tmp_path)
    assert (data, raw.size) == (b"", CAP + 1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: p / "nowhere", "does not exist"),
        (lambda p: p, "holds no SKILL.md"),
        (lambda p: _written(p / "skills.csv", b"a,b"), "neither a folder nor a .parquet"),
        (lambda p: _written(p / "skills.parquet", b"junk"), "cannot be read as Parquet"),
        (lambda p: _table(p, {"path": ["a"], "text": ["b"]}), "lacks the columns repo"),
        (lambda p: _table(p, {"repo": ["a"], "path": ["b"]}), r"text \(or raw\)"),
        (lambda p: _table(p, {"repo": [], "path": [], "text": []}), "no rows"),
    ],
)
def test_a_wrong_path_gets_a_sentence(tmp_path: Path, make: object, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        list(collect(make(tmp_path)))  # type: ignore[operator]


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def _table(folder: Path, columns: dict[str, list[object]]) -> Path:
    path = folder / "skills.parquet"
    pl.DataFrame(columns).write_parquet(path)
    return path


def test_parquet_rows_become_raw_skills_and_raw_bytes_win_over_text(tmp_path: Path) -> None:
    path = _table(
        tmp_path,
        {
            "repo": ["anna/skills", "bert/one"],
            "path": ["skills/tide/SKILL.md", "SKILL.md"],
            "text": ["text", "other"],
            "raw": [b"\xff raw", None],
            "license": ["MIT", None],
            "license_evidence": ["repository LICENSE", None],
            "has_scripts": [True, None],
            "n_files": [3, None],
        },
    )
    (first, one), (second, two) = collect_parquet(path)
    assert (one, two) == (b"\xff raw", b"other")
    assert (first.origin, first.owner, first.slug) == ("anna/skills:skills/tide/SKILL.md", "anna", "tide")
    assert (first.licence_hint, first.facts.files, first.facts.scripts) == ("repository LICENSE: MIT", 3, ("scripts/",))
    assert (second.slug, second.licence_hint, second.source) == ("one", "", "parquet")
    assert first.id.startswith("parquet-")
