"""Benchmarks are read in the forms in which they are shared; what cannot be read is one sentence that names it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from facet_dagster.domain.outcome import Reason
from facet_dagster.errors import ConfigError
from facet_dagster.pipeline.benchmarks import benchmark_items, screen
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.settings import Settings

TEXT = "Read the sales, drop what has no amount, and write one total for each region into totals.json please."


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_every_form_is_read(tmp_path: Path) -> None:
    write(tmp_path / "h" / "task.toml", 'schema_version = "1.4"')
    write(tmp_path / "h" / "instruction.md", "Harbor's.")
    write(tmp_path / "h" / "tests" / "notes.txt", "Not an instruction.")
    write(tmp_path / "steps_task" / "task.toml", "")
    write(tmp_path / "steps_task" / "steps" / "one" / "instruction.md", "A step.")
    write(tmp_path / "tb" / "task.yaml", "instruction: |-\n  Terminal-Bench's.\n")
    write(tmp_path / "old" / "task.yaml", "descriptions:\n- {key: base, description: Older.}\n")
    write(tmp_path / "list.txt", "First.\n\nSecond.\n")
    rows = [
        '"A text."',
        json.dumps({"prompt": "A prompt."}),
        json.dumps({"messages": [{"role": "user", "content": "U"}]}),
    ]
    write(tmp_path / "list.jsonl", "\n".join([*rows, ""]))
    assert {item.name: item.text.strip() for item in benchmark_items(tmp_path)} == {
        "h": "Harbor's.",
        "steps_task/steps/one": "A step.",
        "tb": "Terminal-Bench's.",
        "old": "Older.",
        "list.txt:1": "First.",
        "list.txt:3": "Second.",
        "list.jsonl:1": "A text.",
        "list.jsonl:2": "A prompt.",
        "list.jsonl:3": "U",
    }


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("list.jsonl", '{"a": 1}\n', "line 1 names none of instruction"),
        ("list.jsonl", "{broken\n", "list.jsonl cannot be read"),
        ("t/task.yaml", "[1]", "it is no table"),
        ("t/task.toml", "= 3", "cannot be read"),
        ("other.md", "x", "holds no benchmark task"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, name: str, text: str, said: str) -> None:
    write(tmp_path / name, text)
    with pytest.raises(ConfigError, match=said):
        benchmark_items(tmp_path)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="There is no"):
        benchmark_items(tmp_path / "none")


def test_a_text_that_repeats_a_benchmark_is_refused_with_the_words(tmp_path: Path) -> None:
    write(tmp_path / "b.txt", TEXT)
    refusal = screen(Settings(home=tmp_path, benchmarks=tmp_path))
    assert refusal is not None
    rejection = refusal(Reason.TASK_CONTAMINATED, "t", f"Do this. {TEXT}")
    assert rejection is not None
    assert (rejection.reason, rejection.evidence["benchmark"]) == (Reason.TASK_CONTAMINATED, "b.txt:1")
    assert refusal(Reason.TASK_CONTAMINATED, "t", "Something else.") is None


def test_without_benchmarks_no_stage_changes_and_a_changed_list_changes_those_that_look(tmp_path: Path) -> None:
    assert screen(Settings(home=tmp_path)) is None
    plain = seed_stages(Settings(home=tmp_path))
    exports_alone = seed_stages(Settings(home=tmp_path, export_benchmarks=tmp_path))
    assert [stage.parts for stage in plain] == [stage.parts for stage in exports_alone]
    write(tmp_path / "b.txt", "One.\n")
    settings = Settings(home=tmp_path, benchmarks=tmp_path)
    before = seed_stages(settings)
    assert [new.name for old, new in zip(plain, before, strict=True) if old.parts != new.parts] == [
        "scenario",
        "task_draft",
    ]
    write(tmp_path / "b.txt", "One.\nTwo more words.\n")
    assert seed_stages(settings).scenario.parts != before.scenario.parts
