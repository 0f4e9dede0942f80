"""Collecting finds every SKILL.md, follows no link out of a package, and gives ids that do not depend on the place."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from facet_dagster.domain.ids import digest
from facet_dagster.domain.skill import PackageFacts, RawSkill
from facet_dagster.errors import ConfigError, SourceError
from facet_dagster.stages.collect import CAP, collect, collect_folder, collect_parquet, tables

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


def test_the_layout_of_the_clawhub_archive(tmp_path: Path) -> None:
    folder = package(tmp_path, "skills/anna/tide-old")
    package(tmp_path, "skills/anna/tide-old/inner")
    latest = {"version": "1.0.0", "publishedAt": 1, "commit": f"https://example.com/skills/commit/{'ab' * 20}"}
    meta = {"owner": "anna-b", "slug": "tide", "displayName": "Tide", "latest": latest, "history": []}
    (folder / "_meta.json").write_text(json.dumps(meta))
    outer, inner = (raw for raw, _ in collect(tmp_path))
    assert (outer.owner, outer.slug, outer.commit) == ("anna-b", "tide", "ab" * 20)
    assert (inner.owner, inner.slug, inner.commit) == ("anna-b", "inner", "")


@pytest.mark.parametrize(
    "text", ["[1]", '{"latest": {"commit": null}}', '{"latest": 3}', "{", "[" * 60_000, '{"owner": 3, "slug": []}']
)
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
    for name in ("scripts/run.py", "references/a.md", "notes.txt", "assets/x/logo.svg", "Tests/run.sh"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    facts = only(tmp_path).facts
    assert (facts.files, facts.scripts, facts.references) == (6, ("scripts/run.py",), ("references/a.md",))
    assert (facts.assets, facts.tests) == (("assets/x/logo.svg",), ("Tests/run.sh",))


def test_facts_without_assets_and_tests_are_stored_as_before_there_were_any() -> None:
    assert PackageFacts().model_dump(mode="json") == {"files": 1, "scripts": [], "references": []}


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
        (lambda p: _written(p / "skills.zip", b"PK"), "archives are not opened: unpack it"),
        (lambda p: _written(p / "skills.tar.gz", b"x"), "archives are not opened: unpack it"),
        (lambda p: _written(p / "skills.parquet", b"junk"), "cannot be read as Parquet"),
        (lambda p: _written(p / "skills.jsonl", b""), "no rows"),
        (lambda p: _written(p / "skills.jsonl", b"no json"), "line 1 is not JSON"),
        (lambda p: _written(p / "skills.jsonl", b"[1]"), "line 1 is no JSON object"),
        (lambda p: _written(p / "skills.jsonl", b'{"repo": "a", "text": "b"}'), "lacks the columns path"),
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


def test_json_lines_are_rows_and_what_is_none_is_told(tmp_path: Path) -> None:
    rows = [
        {
            "repo": "anna/skills",
            "path": "tide/SKILL.md",
            "text": TEXT,
            "license": "MIT",
            "commit": "abc",
            "n_files": "x",
        },
        {"repo": "anna/skills", "path": "none/SKILL.md", "text": 3},
        {"repo": "bert/one", "path": "SKILL.md", "raw": TEXT, "has_tests": True},
    ]
    text = "\n".join(map(json.dumps, rows)) + "\n\n{\n" + "[" * 100_000 + "\n"
    path = _written(tmp_path / "skills.jsonl", text.encode())
    told = list[tuple[str, str]]()
    (first, one), (second, _) = collect(path, unread=lambda place, why: told.append((place, why)))
    assert (one, first.commit, first.facts.files) == (TEXT.encode(), "abc", 1)
    assert (first.licence_hint, second.facts.tests) == ("table: MIT", ("tests/",))
    assert first.id.startswith("jsonl-")
    assert told == [("line 2", "has no text"), ("line 5", "is not JSON"), ("line 6", "is not JSON")]
    with pytest.raises(ConfigError, match="Line 2 has no text"):
        list(collect(path))


def test_a_line_without_an_end_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "LINE_CAP", 200)
    row = json.dumps({"repo": "a/b", "path": "x/SKILL.md", "text": TEXT})
    path = _written(tmp_path / "skills.jsonl", f"{row}\n{'x' * 1000}\n{row}\n".encode())
    told = list[str]()
    assert len(list(collect(path, unread=lambda place, why: told.append(f"{place} {why}")))) == 2
    assert told == ["line 2 has more than 200 bytes"]


def test_a_folder_that_vanishes_is_a_source_error_that_says_what_to_do(tmp_path: Path) -> None:
    for name in ("one", "two"):
        package(tmp_path / "tree", f"anna/{name}")
    collected = collect(tmp_path / "tree", unread=lambda place, why: None)
    assert next(collected)[0].slug == "one"
    shutil.rmtree(tmp_path / "tree")
    with pytest.raises(SourceError, match="vanished while it was read; what was read is kept"):
        next(collected)


@pytest.mark.parametrize("change", [lambda path: path.write_bytes(b""), lambda path: path.unlink()])
def test_a_table_that_changes_keeps_the_rows_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object]
) -> None:
    monkeypatch.setattr(tables, "BATCH", 1)
    path = _table(tmp_path, {"repo": ["a", "b"], "path": ["a", "b"], "text": ["x", "y"]})
    collected = collect(path)
    assert next(collected)[1] == b"x"
    change(path)
    with pytest.raises(SourceError, match="was changed while it was read, at row 2"):
        next(collected)


def test_damaged_parquet_is_an_error_of_ours(tmp_path: Path) -> None:
    rows = 50
    path = _table(
        tmp_path, {"repo": ["a/b"] * rows, "path": [f"{n}/SKILL.md" for n in range(rows)], "text": [TEXT] * rows}
    )
    whole = path.read_bytes()
    for place in range(8, len(whole) - 8, 23):
        path.write_bytes(whole[:place] + b"\xff\x00\xff\x7f" + whole[place + 4 :])
        with contextlib.suppress(ConfigError, SourceError):
            list(collect(path))


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "anna" / "tide").mkdir(parents=True)
    os.mkfifo(tmp_path / "anna" / "tide" / "SKILL.md")
    [(raw, data)] = collect(tmp_path)
    assert (raw.size, data) == (0, b"")


def test_a_loop_of_folders_is_not_entered(tmp_path: Path) -> None:
    folder = package(tmp_path, "anna/tide")
    (folder / "again").symlink_to(tmp_path)
    (tmp_path / "node_modules" / "x").mkdir(parents=True)
    (tmp_path / "node_modules" / "x" / "SKILL.md").write_text(TEXT)
    assert only(tmp_path).facts.files == 2
