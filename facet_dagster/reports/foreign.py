"""Other people's tasks and trajectories in our measures: Harbor or Terminal-Bench folders, ATIF and ShareGPT files.

A folder may hold any of it, as deep as it likes. Nothing is run, nothing is imported, links are not followed, and what
cannot be read is counted. Measures are the paper's Table 1: turns of a trajectory, tests of a task, P@1 and P@3.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from facet_dagster.domain.ids import digest
from facet_dagster.domain.outcome import Value
from facet_dagster.errors import ConfigError
from facet_dagster.reports.commands import CommandReport, Reader, Tally
from facet_dagster.reports.difficulty import TaskAttempts, pass_at_3
from facet_dagster.reports.foreign_tasks import ForeignTask, read_task
from facet_dagster.reports.foreign_trials import read_chats, read_trajectory, read_trials
from facet_dagster.reports.statistics import Rate, rate

SAMPLE = 100  # tasks of which P@1 and P@3 are taken, three attempts each (paper, Table 1)
ATTEMPTS = 3
MOST = 200_000  # files that are looked at
LONGEST = 64 * 1024 * 1024  # bytes of a file that is read
TASKS = ("task.toml", "task.yaml", "task.yml")
RESULTS = ("result.json", "results.json")
CHATS = (".jsonl", ".json", ".parquet")
_NO_TASK = {"node_modules", ".git", "environment", "solution"}  # folders in which no task lies


class Sampled(Value):
    """P@1 and P@3 on a sample that a number decides: the same folder, the same tasks."""

    tasks: int
    p1: Rate
    p3: Rate


class Foreign(Value):
    """What a folder holds. ``turns`` and ``tests`` are means, None where there is nothing to count.

    ``families`` counts tasks by what they say of themselves, ``alike`` by what the classifier says of their
    instructions (empty without one); ``unread`` counts files that look as if they belonged here and cannot be read.
    """

    name: str
    tasks: int
    tests: float | None
    untested: int
    families: dict[str, int]
    alike: dict[str, int]
    trajectories: int
    turns: float | None
    sampled: Sampled
    commands: CommandReport
    unread: int


class _Found(NamedTuple):
    tasks: list[ForeignTask]
    rewards: dict[str, list[int]]
    tally: Tally
    unread: Counter[str]


Classifier = Callable[[Iterable[str]], dict[str, int]]


def foreign(folder: Path, classifier: Classifier | None = None) -> Foreign:
    """Read a folder. Raises ConfigError when it is none, or holds neither tasks nor trajectories."""
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder: name one with tasks, a job of Harbor's, or trajectories")
    found = _Found([], {}, Tally(Reader()), Counter())
    for path in _files(folder):
        _take(path, folder, found)
    commands = found.tally.report()
    if not found.tasks and not commands.trajectories and not found.rewards:
        raise ConfigError(
            f"{folder} holds no task (task.toml, task.yaml), no trial of Harbor's and no trajectory (ATIF, ShareGPT)"
        )
    tests = [task.tests for task in found.tasks if task.tests is not None]
    return Foreign(
        name=folder.resolve().name,
        tasks=len(found.tasks) or len(found.rewards),
        tests=sum(tests) / len(tests) if tests else None,
        untested=len(found.tasks) - len(tests),
        families=dict(Counter(task.family for task in found.tasks if task.family).most_common()),
        alike=classifier(task.text for task in found.tasks) if classifier else {},
        trajectories=commands.trajectories,
        turns=commands.turns / commands.trajectories if commands.trajectories else None,
        sampled=sample([TaskAttempts(key=k, rewards=tuple(v), missed=()) for k, v in sorted(found.rewards.items())]),
        commands=commands,
        unread=found.unread.total(),
    )


def sample(tasks: Sequence[TaskAttempts]) -> Sampled:
    """Of tasks with at least three attempts, or with the most there are, SAMPLE by the digest of their key."""
    most = min(ATTEMPTS, max((len(task.rewards) for task in tasks), default=0))
    enough = sorted((t for t in tasks if len(t.rewards) >= max(most, 1)), key=lambda task: digest(task.key))[:SAMPLE]
    chosen = [task.model_copy(update={"rewards": task.rewards[:ATTEMPTS]}) for task in enough]
    solved, made = sum(task.solved for task in chosen), sum(len(task.rewards) for task in chosen)
    return Sampled(tasks=len(chosen), p1=rate(solved, made), p3=pass_at_3(chosen))


def _files(folder: Path) -> Iterator[Path]:
    """Files in the order of their names; links are left out."""
    count = 0
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _NO_TASK)
        for name in sorted(files):
            count += 1
            if count > MOST:
                raise ConfigError(f"{folder} holds more than {MOST:,} files: name a smaller folder")
            path = Path(here) / name
            if path.is_file() and not path.is_symlink():
                yield path


def _take(path: Path, folder: Path, found: _Found) -> None:
    try:
        if path.name in TASKS:
            found.tasks.append(read_task(path))
        elif path.suffix in CHATS and path.stat().st_size > LONGEST:
            found.unread["too large"] += 1
        elif path.name in RESULTS:
            for trial in read_trials(path):
                found.rewards.setdefault(trial.task, []).append(trial.reward)
        elif path.name == "trajectory.json":
            found.tally.add(read_trajectory(path))
        elif path.suffix in CHATS and not _inside_a_task(path, folder):
            for turns in read_chats(path):
                found.tally.add(turns)
    except (ValueError, OSError, RecursionError):
        found.unread["unreadable"] += 1


def _inside_a_task(path: Path, folder: Path) -> bool:
    """Data of a task is no set of trajectories."""
    above = [parent for parent in path.parents if parent == folder or folder in parent.parents]
    return any((parent / name).is_file() for parent in above for name in TASKS)
