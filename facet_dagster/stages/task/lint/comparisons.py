"""How checks compare: patterns that have let wrong work pass, or refused right work."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from facet_dagster.domain.python_source import nodes
from facet_dagster.domain.task import Draft
from facet_dagster.stages.task.lint.reading import Reach, app_paths, names_in, reaches
from facet_dagster.stages.task.lint.rules import Problem, said
from facet_dagster.stages.task.render import helpers, markdown, parsed

_PRISTINE = frozenset({"E0", "E0_SHA"})
_REGEX = frozenset({"search", "match", "fullmatch", "findall", "finditer", "compile"})
_SPELLING = re.compile(r"""["']|\\\*|\\\+|\\\(|[<>=]=|(?<![(?<!])[<>](?!=)""")
_STRUCTURED = re.compile(r"\.(csv|tsv|jsonl?|ya?ml)$")
_TOLERANCE = re.compile(
    r"\btolerance\b|\bwithin\s+±?\s*[\d.]+|±\s*[\d.]+|\bdiffer by at most\b|\bdeviate", re.IGNORECASE
)
_FIELD = re.compile(r"`([A-Za-z_]\w*)`")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_FILE_TIMES = frozenset({"st_mtime", "st_mtime_ns", "st_ctime", "st_atime", "getmtime", "getctime", "getatime"})


def remarks(draft: Draft, inputs: Sequence[str], rules: str) -> Iterator[Problem]:
    """``inputs`` are the absolute paths of the initial files, ``rules`` the text of the rules file."""
    loose = _loose_fields(f"{markdown(draft.instruction)}\n{rules}")
    for reach in reaches(draft.verifier):
        yield from _sampled(reach, inputs)
        yield from _exact(reach, loose)
        yield from _texts(reach)
    trees: dict[str, ast.AST | None] = {"The helpers": parsed(helpers(draft.verifier))}
    trees |= {f"Check {reach.id}": reach.own for reach in reaches(draft.verifier)}
    for place, tree in trees.items():
        yield from _patterns(place, tree)
        yield from _unsteady(place, tree)


def _sampled(reach: Reach, inputs: Sequence[str]) -> Iterator[Problem]:
    """Reads an initial file where it may have been edited, and knows only typed values of it."""
    if any(names_in(tree) & _PRISTINE for tree in reach.trees):
        return
    for path in dict.fromkeys(path for tree in reach.trees for path in app_paths(tree)):
        if path in inputs and any(isinstance(n, ast.Compare) and _has_typed_side(n) for n in reach.nodes()):
            text = f"Check {reach.id} judges {path} by typed values; compare it with the pristine copy in E0."
            yield said("sampled-comparison", text)


def _has_typed_side(node: ast.Compare) -> bool:
    sides = [node.left, *node.comparators]
    return any(isinstance(op, ast.Eq) for op in node.ops) and any(isinstance(side, ast.Constant) for side in sides)


def _patterns(place: str, tree: ast.AST | None) -> Iterator[Problem]:
    """Helpers read inputs too, whose form is known; a pattern in a check is for what the work wrote."""
    if tree is None or place == "The helpers":
        return
    for node in nodes(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _REGEX
            and node.args
        ):
            pattern = node.args[0]
            if isinstance(pattern, ast.Constant) and isinstance(pattern.value, str) and _SPELLING.search(pattern.value):
                text = f"{place} looks for {pattern.value[:60]!r}, one of several spellings; parse and evaluate it."
                yield said("parse-it", text)


def _loose_fields(text: str) -> frozenset[str]:
    """Names that stand in a sentence about a tolerance."""
    sentences = (sentence for sentence in _SENTENCE.split(text) if _TOLERANCE.search(sentence))
    return frozenset(name for sentence in sentences for name in _FIELD.findall(sentence))


def _exact(reach: Reach, loose: frozenset[str]) -> Iterator[Problem]:
    for node in nodes(reach.own):
        if not isinstance(node, ast.Compare) or not any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops):
            continue
        if names_in(node) & {"abs", "round", "isclose"}:
            continue
        for name in sorted({n.value for n in nodes(node) if isinstance(n, ast.Constant) and n.value in loose}):
            text = f"Check {reach.id} compares {name} exactly, and the instruction gives a tolerance for it."
            yield said("exact-beside-tolerance", text)


def _texts(reach: Reach) -> Iterator[Problem]:
    for node in nodes(reach.own):
        if isinstance(node, ast.Call) and _splits_lines(node):
            yield said("raw-text", f"Check {reach.id} splits at line ends itself; let a shared helper do it.")
        if isinstance(node, ast.Compare) and not names_in(node) & _PRISTINE:
            sides = [node.left, *node.comparators]
            read = [path for side in sides if _is_text(side) for path in app_paths(side) if _STRUCTURED.search(path)]
            yield from (said("raw-text", f"Check {reach.id} compares {path} as text; parse it.") for path in read)


def _splits_lines(node: ast.Call) -> bool:
    first = node.args[0] if node.args else None
    split = isinstance(node.func, ast.Attribute) and node.func.attr == "split"
    return split and isinstance(first, ast.Constant) and first.value in ("\n", b"\n")


def _is_text(side: ast.expr) -> bool:
    return isinstance(side, ast.Call) and isinstance(side.func, ast.Attribute) and side.func.attr.startswith("read_")


def _unsteady(place: str, tree: ast.AST | None) -> Iterator[Problem]:
    for node in nodes(tree) if tree else ():
        if isinstance(node, ast.Attribute) and node.attr in _FILE_TIMES:
            yield said("unsteady-verifier", f"{place}: {node.attr} differs between runs.")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("hash", "id"):
            yield said("unsteady-verifier", f"{place}: {node.func.id}() differs between runs.")
