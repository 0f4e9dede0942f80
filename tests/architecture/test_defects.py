"""docs/defects.md says what is true: every row once, every file, symbol and test that it names is there."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "defects.md"
OPEN = "**open**"
NONE = "Does not apply"
FOLDERS = ("facet_dagster", "facet_harbor", "facet_trainer", "assets", "resources", "sensors", "tests", "benchmarks")
# Found by their base class or their caller's convention, and what its user is still to come for.
LISTS = ("facet_dagster/adapters/ledger_tables.py", "facet_dagster/adapters/migrations/", "tests/", "benchmarks/")
COMING: frozenset[str] = frozenset()


class Row(NamedTuple):
    number: str
    defect: str
    prevention: str
    tests: str


def rows() -> list[Row]:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| D-")]
    return [Row(*(cell.strip() for cell in line.strip("|").split("|"))) for line in lines]


@cache
def names(path: Path) -> frozenset[str]:
    """Functions, classes and methods of a file."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return frozenset(n.name for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, kinds))


def source(path: str) -> Path:
    below = ROOT / "facet_dagster" / path
    return below if below.exists() else ROOT / path


ROWS = rows()
by_number = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.number)


def test_every_defect_has_one_row() -> None:
    assert [row.number for row in ROWS] == [f"D-{n:02}" for n in range(1, 49)]


@by_number
def test_every_symbol_exists(row: Row) -> None:
    named = re.findall(r"`([\w./]+\.py):(\w+)`", row.prevention)
    assert named or row.prevention.startswith((OPEN, NONE)), "no symbol is named"
    for path, symbol in named:
        assert symbol in names(source(path)), (path, symbol)


@by_number
def test_every_file_exists_unless_the_row_is_open(row: Row) -> None:
    named = re.findall(r"`([\w./]+/[\w./]*)`", row.prevention)
    assert row.prevention.startswith(OPEN) or [path for path in named if not source(path).exists()] == []


@by_number
def test_every_test_exists(row: Row) -> None:
    named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", row.tests)
    assert named, "no test is named"
    assert len(named) == row.tests.count("`") // 2
    for path, test in named:
        assert test in names(ROOT / "tests" / path), (path, test)


def test_open_rows_are_listed_as_open_and_nowhere_as_done() -> None:
    text = PAGE.read_text(encoding="utf-8")
    listed = re.search(r"^Open: (.*)\.$", text, re.MULTILINE)
    assert listed
    still = [row.number for row in ROWS if row.prevention.startswith(OPEN)]
    assert listed[1] == (", ".join(still) or "none")
    outside = [line for line in text.splitlines() if not line.startswith("| D-")]
    assert re.findall(r"D-\d+", " ".join(outside)) == still


def test_nothing_is_defined_and_never_used() -> None:
    """Functions and classes at the top of a module that no other line of the platform or of a test names."""
    paths = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}
    words = Counter(word for text in texts.values() for word in re.findall(r"\w+", text))
    unused = [
        f"{path}:{node.name}"
        for path, text in texts.items()
        if not path.startswith(LISTS)
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.decorator_list and words[node.name] == 1
    ]
    assert [name for name in unused if name.partition(":")[2] not in COMING] == []
