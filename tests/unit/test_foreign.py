"""Other people's folders in our measures, also where they are broken or hostile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from facet_dagster.errors import ConfigError
from facet_dagster.reports.difficulty import TaskAttempts
from facet_dagster.reports.foreign import Foreign, foreign, sample

CALL = {"function_name": "bash_command", "arguments": {"keystrokes": "ls -la\n"}}


def write(path: Path, text: str | bytes | Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(text, bytes):
        path.write_bytes(text)
    else:
        path.write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")


def harbor(folder: Path, name: str = "task-a", family: str = "structured data", tests: int = 2) -> None:
    write(folder / name / "task.toml", f'[metadata]\ntask_family = "{family}"\n')
    write(folder / name / "instruction.md", "# Total the sales\n\nRead the table.")
    write(folder / name / "tests" / "test_it.py", "".join(f"def test_{n}():\n    pass\n" for n in range(tests)))
    write(folder / name / "environment" / "data" / "rows.jsonl", "not JSON at all")
    write(folder / name / "tests" / "rows.jsonl", "not JSON at all")


def trial(folder: Path, task: str, reward: Any, number: int, **more: Any) -> None:
    at = folder / "job" / f"{task}__{number}"
    write(
        at / "result.json",
        {"task_name": task, "trial_name": "t", "verifier_result": {"rewards": {"reward": reward}}, **more},
    )
    write(at / "agent" / "trajectory.json", {"steps": [{"source": "agent", "message": "", "tool_calls": [CALL]}] * 3})


def test_harbor_tasks_and_trials(tmp_path: Path) -> None:
    harbor(tmp_path)
    harbor(tmp_path, "task-b", "media processing", tests=4)
    for number, reward in enumerate((1.0, 0.0, 1)):
        trial(tmp_path, "task-a", reward, number)
    trial(tmp_path, "task-b", float("nan"), 1)
    trial(tmp_path, "task-b", 1, 2, reward_valid=False)
    trial(tmp_path, "task-b", 0.5, 3)
    found = foreign(tmp_path)
    assert (found.tasks, found.tests, found.untested) == (2, 3.0, 0)
    assert found.families == {"structured data": 1, "media processing": 1}
    assert (found.trajectories, found.turns) == (6, 3.0)
    assert (found.sampled.tasks, found.sampled.p1.count, found.sampled.p1.of) == (1, 2, 3), "only three attempts count"
    assert (found.sampled.p3.count, found.sampled.p3.of) == (1, 1)
    assert found.commands.programs[0].name == "ls"
    assert found.unread == 0, "what lies in a task is its data"


def test_terminal_bench_tasks_and_results(tmp_path: Path) -> None:
    write(tmp_path / "t1" / "task.yaml", "instruction: Do it.\ncategory: security\n")
    write(
        tmp_path / "t1" / "tests" / "test_outputs.py",
        "class TestIt:\n    def test_a(self): ...\n    def test_b(self): ...\n",
    )
    write(
        tmp_path / "run" / "results.json",
        {"results": [{"task_id": "t1", "is_resolved": True}, {"task_id": "t1", "is_resolved": None}]},
    )
    found = foreign(tmp_path)
    assert (found.tasks, found.tests, found.families) == (1, 2.0, {"security": 1})
    assert (found.sampled.p1.count, found.sampled.p1.of) == (1, 2)


CHATS = [
    {
        "conversations": [
            {"from": "human", "value": "x"},
            {"from": "gpt", "value": '{"commands": [{"keystrokes": "cat a"}]}'},
        ]
    },
    {
        "messages": [
            {"role": "assistant", "content": "Look:\n```bash\nls; pwd\n```"},
            {"role": "assistant", "content": "done"},
        ]
    },
    {
        "messages": [
            {"role": "assistant", "tool_calls": [{"function": {"name": "bash", "arguments": '{"command": "rm a"}'}}]}
        ]
    },
]


def programs(found: Foreign) -> list[str]:
    return sorted(used.name for used in found.commands.programs)


def test_conversations_in_three_forms(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", "\n".join(map(json.dumps, CHATS)))
    pl.DataFrame({"conversations": [CHATS[0]["conversations"]]}).write_parquet(tmp_path / "train.parquet")
    found = foreign(tmp_path)
    assert (found.trajectories, found.turns) == (3, pytest.approx(4 / 3)), "the parquet file holds the same rows"
    assert programs(found) == ["cat", "ls", "pwd", "rm"]
    (tmp_path / "train.jsonl").unlink()
    assert programs(foreign(tmp_path)) == ["cat"]


def test_what_cannot_be_read_is_counted(tmp_path: Path) -> None:
    harbor(tmp_path)
    write(tmp_path / "bad" / "task.toml", "= broken")
    write(tmp_path / "worse" / "task.yaml", "[1, 2]")
    write(tmp_path / "job" / "a" / "result.json", "{")
    write(tmp_path / "job" / "a" / "agent" / "trajectory.json", '{"steps": 3}')
    write(tmp_path / "job" / "b" / "trajectory.json", {"steps": [{"source": "agent", "tool_calls": [1]}]})
    write(tmp_path / "job" / "c" / "trajectory.json", {"steps": [{"source": "agent", "tool_calls": 7}]})
    write(tmp_path / "bomb" / "task.yaml", "a: &a [x, x]\nb: &b [*a, *a]\ninstruction: *b\ncategory: *b\n")
    write(tmp_path / "deep.json", "[" * 100_000)
    write(tmp_path / "noise.parquet", b"PAR1 no")
    write(tmp_path / "task-a" / "tests" / "broken.py", "def test_(:")
    found = foreign(tmp_path)
    assert found.unread == 8
    assert (found.tasks, found.tests, found.families) == (2, 2.0, {"structured data": 1})


def test_links_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere" / "t.jsonl", json.dumps(CHATS[0]))
    harbor(tmp_path / "set")
    (tmp_path / "set" / "linked.jsonl").symlink_to(tmp_path / "elsewhere" / "t.jsonl")
    (tmp_path / "set" / "folder").symlink_to(tmp_path / "elsewhere")
    assert foreign(tmp_path / "set").trajectories == 0


def test_a_folder_with_nothing_in_it_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "notes.json", {"a": 1})
    with pytest.raises(ConfigError, match=r"holds no task \(task.toml, task.yaml\), no trial .* and no trajectory"):
        foreign(tmp_path)
    with pytest.raises(ConfigError, match="is no folder: name one with"):
        foreign(tmp_path / "notes.json")


def test_the_sample_is_fixed_and_takes_three_attempts_each() -> None:
    tasks = [TaskAttempts(key=f"t{n}", rewards=(n % 2, 0, 1, 1), missed=()) for n in range(150)]
    tasks.append(TaskAttempts(key="one", rewards=(1,), missed=()))
    found = sample(tasks)
    assert (found.tasks, found.p1.of, found.p3.of) == (100, 300, 100)
    assert sample(tasks[::-1]) == found
    assert sample(tasks[-1:]).p1.of == 1, "fewer attempts where there are no more"
    assert sample([]).tasks == 0


def test_the_classifier_reads_instructions(tmp_path: Path) -> None:
    harbor(tmp_path)
    assert foreign(tmp_path, lambda texts: {text[:7]: 1 for text in texts}).alike == {"# Total": 1}
