"""sources.yaml is read whole or refused with the line and the field; the example in the documentation holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from facet_dagster.errors import ConfigError
from facet_dagster.pipeline.corpus import version_of
from facet_dagster.pipeline.policy import policy_of
from facet_dagster.pipeline.sources import load_sources, sources_of
from facet_dagster.settings import ROOT, load_settings
from facet_dagster.stages.curate import DEFAULT, Policy


def written(folder: Path, text: str) -> Path:
    path = folder / "sources.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_kind_is_read_and_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "sources:\n"
        "  - folder: skills\n"
        "    licence: MIT\n"
        "    because: the team wrote them\n"
        "  - git: [https://example.com/a/b, https://example.com/c/d]\n"
        "    ref: v1\n"
        "  - table: /data/export.parquet\n"
        "  - folder: archive\n"
        "    registry: clawhub\n",
    )
    first, second, third, table, archive = sources_of(str(path))
    assert (first.folder, first.rule) == (tmp_path / "skills", "MIT: the team wrote them")
    assert (second.git, third.git) == (("https://example.com/a/b",), ("https://example.com/c/d",))
    assert (second.ref, third.label) == ("v1", "https://example.com/c/d")
    assert table.table == Path("/data/export.parquet")
    assert archive.rule.startswith("MIT-0: ClawHub")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1, the file: "),
        ("sources: []\n", "line 1, sources: "),
        ("sources:\n  - {}\n", "line 2, sources.0: give exactly one of folder, git and table"),
        ("sources:\n  - folder: a\n    table: b\n", "line 2, sources.0: give exactly one"),
        ("sources:\n  - folder: a\n  - git: https://e.com/a\n    reff: x\n", "line 4, sources.1.reff: "),
        (
            "sources:\n  - git:\n      - https://e.com/a\n      - ssh://e.com/b\n",
            "sources.0.git: 'ssh://e.com/b' is no",
        ),
        ("sources:\n  - git: https://u:p@e.com/a\n", "holds a credential"),
        ("sources:\n  - git: https://e.com/a\n    max_megabytes: 0\n", "line 3, sources.0.max_megabytes: "),
        ("sources:\n  - git: https://e.com/a\n    ref: -x\n", "line 3, sources.0.ref: "),
        ("sources:\n  - folder: a\n    ref: main\n", "ref and below are for git only"),
        ("sources:\n  - folder: a\n    registry: npm\n", "line 3, sources.0.registry: "),
        ("sources:\n  - folder: a\n    licence: MIT\n", "licence and because go together"),
        ("sources:\n  - folder: a\n    licence: free\n    because: I say so\n", "no SPDX identifier that is known"),
        ("sources:\n  - table: a.parquet\n    registry: clawhub\n", "a table has its licences in the column"),
        ("sources:\n  - folder: [\n", "line 3: this is not YAML"),
        ("sources: !!python/object/apply:os.system [ls]\n", "this is not YAML"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)) as failed:
        load_sources(written(tmp_path, text))
    assert "sources.yaml" in str(failed.value)
    assert "secret" not in str(failed.value)


@pytest.mark.parametrize("address", ["git@github.com:a/b.git", "ssh://x/y", "http://x/y", "https://u:secret@x/y"])
def test_an_address_that_is_not_read_is_a_sentence(address: str) -> None:
    with pytest.raises(ConfigError) as failed:
        sources_of(address)
    assert "secret" not in str(failed.value)


def test_a_path_is_a_folder_or_a_table(tmp_path: Path) -> None:
    [folder] = sources_of(str(tmp_path))
    [table] = sources_of(str(tmp_path / "a.parquet"))
    assert (folder.folder, table.table) == (tmp_path, tmp_path / "a.parquet")


def test_the_documented_example_holds(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "sources.md").read_text(encoding="utf-8")
    example = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert example is not None
    assert len(load_sources(written(tmp_path, example[1])).sources) >= 4


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("FACET_LANGUAGES", "english", "'english' is no language code of two letters"),
        ("FACET_LICENCES", "MIT,(x)", "'(x)' is no SPDX identifier"),
    ],
)
def test_a_wrong_policy_names_its_variable(monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=re.escape(words)) as failed:
        load_settings()
    assert name in str(failed.value)


def test_a_policy_is_a_list_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACET_LICENCES", "MIT, Apache-2.0")
    monkeypatch.setenv("FACET_LANGUAGES", "en,zh")
    monkeypatch.setenv("FACET_UNKNOWN_LICENCE", "true")
    policy = policy_of(load_settings())
    assert policy == Policy(frozenset({"MIT", "Apache-2.0"}), unknown_licence=True, languages=frozenset({"en", "zh"}))
    told = version_of(load_settings())
    for name in ("FACET_LICENCES", "FACET_LANGUAGES", "FACET_UNKNOWN_LICENCE"):
        monkeypatch.delenv(name)
    assert policy_of(load_settings()) == DEFAULT
    assert version_of(load_settings()) != told
