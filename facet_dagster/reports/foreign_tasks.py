"""One task of somebody else: a Harbor folder (task.toml) or one of Terminal-Bench (task.yaml). Nothing of it is run."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from facet_dagster.domain.python_source import parse

CAP = 1024 * 1024  # bytes of one file that is read
TESTS = 400  # files below tests/ that are looked at
_SHELL_TEST = re.compile(r"^\s*(?:function\s+)?test_\w+\s*\(\)", re.MULTILINE)
_CHECK = re.compile(r"check_C\d+")


class ForeignTask(NamedTuple):
    """``tests`` is None where none is found; ``family`` is what the task says of itself, empty when it says nothing;
    ``text`` is its instruction."""

    name: str
    tests: int | None
    family: str
    text: str


def read_task(path: Path) -> ForeignTask:
    """The task whose description is ``path``. Raises ValueError for what is no such file, OSError."""
    told = _toml(path) if path.suffix == ".toml" else _yaml(path)
    about = told.get("metadata") if isinstance(told.get("metadata"), dict) else told
    assert isinstance(about, dict)
    family = _word(about.get("task_family")) or _word(about.get("category"))
    instruction = path.with_name("instruction.md")
    text = _text(instruction) if instruction.is_file() else _word(told.get("instruction"))
    return ForeignTask(path.parent.name, tests_of(path.parent), family[:80], text)


def _word(value: object) -> str:
    """A text; anything else, which may be a list of lists without an end, is none."""
    return value if isinstance(value, str) else ""


def tests_of(folder: Path) -> int | None:
    """Functions below tests/ that test: ``test_*`` of Python or shell, and the checks of our packages.

    A parametrised test counts once: how often it runs is known only to who runs it.
    """
    below = folder / "tests"
    files = sorted(path for path in below.rglob("*") if path.is_file() and not path.is_symlink())[:TESTS]
    count = sum(_in_python(path) for path in files if path.suffix == ".py")
    count += sum(len(_SHELL_TEST.findall(_text(path))) for path in files if path.suffix in {".sh", ".bats"})
    return count or None


def _in_python(path: Path) -> int:
    try:
        found = [
            node for node in ast.walk(parse(_text(path))) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 0
    return sum(node.name.startswith("test_") or _CHECK.fullmatch(node.name) is not None for node in found)


def _text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(CAP).decode(errors="replace")


def _toml(path: Path) -> Mapping[str, Any]:
    return tomllib.loads(_text(path))


def _yaml(path: Path) -> Mapping[str, Any]:
    try:
        told = yaml.safe_load(_text(path))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    if not isinstance(told, dict):
        raise ValueError("the file holds no fields")  # noqa: TRY004 - as every other broken file
    return told
