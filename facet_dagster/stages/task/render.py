"""Instruction and verifier as files: the Markdown that the agent reads, the module that judges its work."""

from __future__ import annotations

import ast
import json
import re
import textwrap
from functools import lru_cache

from facet_dagster.domain.environment import WORKDIR, Environment
from facet_dagster.domain.python_source import nodes, parse
from facet_dagster.domain.task import Check, InstructionReply, VerifierReply

CHECK_HEADER = '''"""Checks of this task. run_checks.py calls them; a check passes when its function returns."""

import csv
import hashlib
import io
import json
import math
import re
import sqlite3
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path

APP = Path("/app")
E0 = Path(__file__).resolve().parent / "e0"
E0_SHA = json.loads((Path(__file__).resolve().parent / "e0.json").read_text(encoding="utf-8"))
'''
HEADER_NAMES = frozenset(
    {"csv", "hashlib", "io", "json", "math", "re", "sqlite3", "Counter", "defaultdict", "Decimal", "Path"}
    | {"APP", "E0", "E0_SHA"}
)
_FUTURE = re.compile(r"^from __future__ import .*$", re.MULTILINE)


def markdown(instruction: InstructionReply) -> str:
    """instruction.md: title, intro, sections in order, and the outputs that no section names."""
    parts = [f"# {_one_line(instruction.title)}", instruction.intro.strip()]
    parts += [section.text.strip() for section in instruction.sections]
    text = "\n\n".join(part for part in parts if part)
    unnamed = [path for path in instruction.outputs if path not in text]
    if unnamed:
        text += "\n\nCreate these files:\n\n" + "\n".join(f"- `{path}`" for path in unnamed)
    return text.replace("\r\n", "\n") + "\n"


def rules_text(environment: Environment) -> str:
    """The whole rules file: as written in the recipe, else as captured."""
    name = environment.recipe.rules_file
    written = next((file.content for file in environment.recipe.files if file.path == name), None)
    if written is not None:
        return written
    files = environment.e0.files if environment.e0 else ()
    return next((file.content for file in files if file.path == f"{WORKDIR}/{name}"), "")


def script(solve_sh: str) -> str:
    """solve.sh with a shebang, LF line ends and a final newline; otherwise as written."""
    text = solve_sh.replace("\r\n", "\n").lstrip("\n")
    if not text.startswith("#!"):
        text = "#!/bin/bash\n" + text
    return text.rstrip("\n") + "\n"


def checks_module(verifier: VerifierReply) -> str:
    """The source of checks.py: header, helpers, one function per check, the CHECKS list."""
    functions = [f"def {function_name(check)}():\n{indented(body(check))}\n" for check in verifier.checks]
    table = "\n".join(f"    {_entry(check)}," for check in verifier.checks)
    return "\n\n".join([CHECK_HEADER, helpers(verifier), *functions, f"CHECKS = [\n{table}\n]\n"])


def helpers(verifier: VerifierReply) -> str:
    """The helpers without imports from ``__future__``, which are an error below other code."""
    return _FUTURE.sub("", verifier.helpers.replace("\r\n", "\n")).strip() + "\n"


def function_name(check: Check) -> str:
    return f"check_{check.id}"


def body(check: Check) -> str:
    """A check's statements in column 0.

    Models also give bodies indented, indented but for the first line, or as a whole function: the first
    two are straightened, the last is kept as an inner function and called.
    """
    text = check.body.replace("\r\n", "\n").strip("\n").rstrip()
    first, _, rest = text.lstrip().partition("\n")
    forms = [textwrap.dedent(text), f"{first}\n{textwrap.dedent(rest)}"]
    chosen = next((form for form in forms if parsed(form) is not None), forms[0])
    tree = parsed(chosen)
    if tree is not None and len(tree.body) == 1 and isinstance(tree.body[0], ast.FunctionDef):
        return f"{chosen}\n{tree.body[0].name}()"
    return chosen


def parsed(source: str) -> ast.Module | None:
    """The syntax tree of function statements, or None. It is shared: change nothing in it."""
    try:
        return remembered(source)
    except (RecursionError, MemoryError):  # of this moment, so not to be remembered
        return None


@lru_cache(maxsize=64)
def remembered(source: str) -> ast.Module | None:
    """As ``parsed``; raises RecursionError and MemoryError."""
    try:
        return parse(source)
    except (SyntaxError, ValueError):
        return None


def indented(source: str) -> str:
    """``source`` four columns to the right; lines inside a string that spans lines stay as they are."""
    tree = parsed(source)
    fixed = {line for node in nodes(tree) for line in _inner_lines(node)} if tree else set()
    lines = source.split("\n")
    return "\n".join(
        line if number in fixed or not line.strip() else f"    {line}" for number, line in enumerate(lines, 1)
    )


def _inner_lines(node: ast.AST) -> range:
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)):
        return range(node.lineno + 1, (node.end_lineno or node.lineno) + 1)
    return range(0)


def _entry(check: Check) -> str:
    facts = {
        "id": check.id,
        "rid": check.rid,
        "title": _one_line(check.title),
        "invariant": check.invariant,
        "depends_on": list(check.depends_on),
    }
    pairs = ", ".join(f"{json.dumps(name)}: {_literal(value)}" for name, value in facts.items())
    return f'{{{pairs}, "run": {function_name(check)}}}'


def _literal(value: object) -> str:
    return repr(value) if isinstance(value, bool) else json.dumps(value)


def _one_line(text: str) -> str:
    return " ".join(text.split())
