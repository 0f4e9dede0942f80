"""The house keeps its rules: sizes, layers, names, documents."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("facet_dagster", "facet_harbor", "facet_trainer", "assets", "resources", "sensors")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
# One long list each by nature: a migration is never edited, table rows repeat their fact.
LISTS = ("facet_dagster/adapters/migrations/versions/", "facet_dagster/adapters/ledger_tables.py")
ASSET_FILES = sorted((ROOT / "assets").glob("s*.py"))


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_files_and_functions_stay_small(path: Path) -> None:
    assert path.read_text(encoding="utf-8").count("\n") <= 400
    for node in functions(path):
        assert (node.end_lineno or 0) - node.lineno < 60 or relative(path).startswith(LISTS), f"{node.name} is too long"


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_every_module_and_public_class_says_what_it_is(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), "the module has no docstring"
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and not relative(path).startswith(LISTS):
            assert ast.get_docstring(node), f"{node.name} has no docstring"


@pytest.mark.parametrize("path", ASSET_FILES, ids=relative)
def test_an_asset_body_has_at_most_twelve_lines(path: Path) -> None:
    for node in functions(path):
        first = node.body[1] if ast.get_docstring(node) else node.body[0]
        assert (node.end_lineno or 0) - first.lineno + 1 <= 12, node.name


@pytest.mark.parametrize("package", ["assets", "resources", "sensors"])
def test_no_postponed_annotations_where_dagster_reads_them(package: str) -> None:
    for path in (ROOT / package).rglob("*.py"):
        assert "from __future__ import annotations" not in path.read_text(encoding="utf-8"), relative(path)


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("lint-imports")
    command = [str(program), "--no-cache", "--config", str(root / "pyproject.toml")]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(root)})


def copy_of_the_house(target: Path) -> Path:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, target / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", target)
    return target


def test_import_contracts_hold() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.parametrize(
    ("path", "line", "contract"),
    [
        ("facet_dagster/domain/ids.py", "import docker", "Vendors live in adapters"),
        ("facet_dagster/funnel.py", "import dagster", "never imports Dagster"),
        ("facet_dagster/stages/pair.py", "import facet_dagster.stages.index", "independent"),
        ("facet_dagster/domain/ids.py", "import facet_dagster.funnel", "Layers"),
        ("assets/partitions.py", "import resources.ports", "Only definitions"),
    ],
)
def test_a_broken_import_contract_is_found(tmp_path: Path, path: str, line: str, contract: str) -> None:
    house = copy_of_the_house(tmp_path)
    (house / path).write_text((house / path).read_text(encoding="utf-8") + f"\n{line}\n", encoding="utf-8")
    done = lint_imports(house)
    assert done.returncode != 0
    broken = [row for row in done.stdout.splitlines() if row.endswith("BROKEN")]
    assert any(contract in row for row in broken), done.stdout[-3000:]


def test_the_tree_in_the_architecture_page_is_the_tree() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for package in ("facet_dagster", "assets", "resources", "sensors"):
        for path in (ROOT / package).iterdir():
            if path.suffix == ".py" and path.name != "__init__.py":
                assert path.name in page, f"{relative(path)} is not in ARCHITECTURE.md"


def test_every_file_that_the_architecture_page_names_exists() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(
        re.findall(r"`((?:facet_dagster|assets|resources|sensors|docs|examples|tests)/[\w./-]+)(?::\w+)?`", page)
    )
    assert named
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_every_function_of_the_walk_exists() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    walk = re.findall(r"`((?:facet_dagster|assets)/[\w/]+\.py):(\w+)`", page)
    assert len(walk) >= 12
    for path, name in walk:
        assert re.search(rf"^\s*(?:def|class) {name}\b", (ROOT / path).read_text(encoding="utf-8"), re.M), (path, name)


def test_readme_names_the_two_commands_on_its_first_screen() -> None:
    top = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:45]
    assert any("make demo" in row for row in top)
    assert any("make test" in row for row in top)


def test_glossary_words_are_unique() -> None:
    rows = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines()
    words = [row.split("|")[1].strip() for row in rows if row.startswith("| ") and "word" not in row.split("|")[1]]
    assert len(words) >= 40
    assert len(words) == len(set(words))
