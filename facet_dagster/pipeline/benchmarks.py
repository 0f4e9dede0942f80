"""The benchmarks that nothing may repeat: a folder of the user's, read once and again when it changes."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from facet_dagster.domain.ids import digest
from facet_dagster.domain.outcome import Reason, Rejection, reject
from facet_dagster.errors import ConfigError
from facet_dagster.settings import Settings
from facet_dagster.stages import contamination
from facet_dagster.stages.contamination import Item, WordIndex

Screen = Callable[[Reason, str, str], Rejection | None]
LARGEST = 256 * 2**20
# Where instruction lists keep their text.
FIELDS = ("instruction", "prompt", "question", "problem", "problem_statement", "task", "query", "text")
_TASKS = ("task.toml", "task.yaml", "task.yml")
Stamp = tuple[tuple[str, int, int], ...]


def benchmark_items(folder: Path) -> tuple[Item, ...]:
    """The tasks below ``folder``: Harbor and Terminal-Bench packages, .txt (one a line), .jsonl. Raises ConfigError."""
    if not folder.exists():
        raise ConfigError(f"There is no {folder}: name a folder of benchmark tasks with FACET_BENCHMARKS, or none")
    return _read(str(folder), _stamp(folder))


def parts(settings: Settings) -> tuple[object, ...]:
    """What a stage depends on that looks at the benchmarks; nothing where there are none."""
    if settings.benchmarks is None:
        return ()
    items = benchmark_items(settings.benchmarks)
    return ("benchmarks", contamination.VERSION, fingerprint(items))


def fingerprint(items: tuple[Item, ...]) -> str:
    return digest([[item.name, item.text] for item in items])


def screen(settings: Settings) -> Screen | None:
    """Refuses a text that shares a run of words with a benchmark, before anything is paid for; None without one."""
    if settings.benchmarks is None:
        return None
    index = WordIndex(benchmark_items(settings.benchmarks))

    def refusal(reason: Reason, subject: str, text: str) -> Rejection | None:
        match = index.match(subject, text)
        if match is None:
            return None
        message = f"The text repeats the benchmark task {match.benchmark}: “{match.evidence}”"
        return reject(reason, message, benchmark=match.benchmark, share=match.score, run=match.evidence)

    return refusal


def _stamp(folder: Path) -> Stamp:
    found = [(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in _files(folder)]
    return tuple(sorted(found))


def _files(folder: Path) -> Iterator[Path]:
    """Whatever may say what a task asks for; no link is followed."""
    if folder.is_file():
        yield folder
        return
    for place, below, names in os.walk(folder):
        here = Path(place)
        below[:] = sorted(name for name in below if name != ".git")
        if any(name in _TASKS for name in names):
            below[:] = [name for name in below if name == "steps"]
            yield from (here / name for name in sorted(names) if name in _TASKS or name == "instruction.md")
        elif here.parent.name == "steps":
            yield from (here / name for name in names if name == "instruction.md")
        else:
            yield from (here / name for name in sorted(names) if name.endswith((".txt", ".jsonl")))


@lru_cache(maxsize=4)
def _read(folder: str, stamp: Stamp) -> tuple[Item, ...]:
    root, items = Path(folder), list[Item]()
    for name, _, size in stamp:
        path = Path(name)
        if path.is_symlink() or size > LARGEST:
            raise ConfigError(f"{path} is a link or larger than {LARGEST} bytes: no benchmark is read from it")
        try:
            items += [Item(_name(root, path, where), text) for where, text in _texts(path) if text.strip()]
        except (ValueError, yaml.YAMLError) as error:
            raise ConfigError(f"{path} cannot be read as a benchmark: {error}") from error
    if not items:
        raise ConfigError(
            f"{folder} holds no benchmark task: it needs Harbor packages (task.toml, instruction.md), Terminal-Bench"
            " packages (task.yaml), or instructions in .txt or .jsonl files"
        )
    return tuple(items)


def _name(root: Path, path: Path, where: str) -> str:
    below = path.relative_to(root) if path != root else Path(path.name)
    place = below.parent if path.name in (*_TASKS, "instruction.md") else below
    return f"{place.as_posix()}{where}"


def _texts(path: Path) -> Iterator[tuple[str, str]]:
    """Place within the file, and text. Raises ValueError."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.name == "task.toml":
        tomllib.loads(text)  # its instruction.md is read by itself
    elif path.suffix in (".yaml", ".yml"):
        yield from (("", instruction) for instruction in _terminal_bench(yaml.safe_load(text)))
    elif path.suffix == ".jsonl":
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                yield f":{number}", _instruction(json.loads(line), number)
    elif path.suffix == ".md":
        yield "", text
    else:
        yield from ((f":{number}", line) for number, line in enumerate(text.splitlines(), 1))


def _terminal_bench(table: Any) -> Iterator[str]:
    if not isinstance(table, dict):
        raise ValueError("it is no table")  # noqa: TRY004 - of the file's content, not of an argument
    yield str(table.get("instruction") or "")
    for described in table.get("descriptions") or ():
        yield str(described.get("description") or "") if isinstance(described, dict) else ""


def _instruction(row: Any, number: int) -> str:
    """The text of one line of a list. Raises ValueError."""
    if isinstance(row, str):
        return row
    found = next((row[name] for name in FIELDS if isinstance(row.get(name), str)), None) if _is_table(row) else None
    if found is None and _is_table(row):
        said = row.get("messages") or row.get("conversations") or ()
        asked = [m for m in said if isinstance(m, dict) and m.get("role", m.get("from")) in ("user", "human")]
        found = str(asked[0].get("content", asked[0].get("value", ""))) if asked else None
    if found is None:
        raise ValueError(f"line {number} names none of {', '.join(FIELDS)}")
    return str(found)


def _is_table(row: Any) -> bool:
    return isinstance(row, dict)
