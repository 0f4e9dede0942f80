"""What a verifier reads, from its syntax tree: helpers that a check reaches, and the paths that are written out."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from facet_dagster.domain.python_source import nodes
from facet_dagster.domain.task import VerifierReply
from facet_dagster.stages.task.render import helpers, parsed
from facet_dagster.stages.task.syntax import Function, tree_of

WORKDIR = "/app/"


class Reach(NamedTuple):
    """A check and every helper it calls, directly or not: their trees."""

    id: str
    own: ast.AST
    trees: tuple[ast.AST, ...]

    def nodes(self) -> Iterator[ast.AST]:
        for tree in self.trees:
            yield from nodes(tree)


def library(verifier: VerifierReply) -> Mapping[str, ast.AST]:
    """Helper functions by name."""
    tree = parsed(helpers(verifier))
    return {node.name: node for node in tree.body if isinstance(node, Function)} if tree else {}


def reaches(verifier: VerifierReply) -> list[Reach]:
    """One entry for each check that can be parsed."""
    known = library(verifier)
    found = []
    for check in verifier.checks:
        own = tree_of(check)
        if own is not None:
            names = _called(own, known)
            found.append(Reach(check.id, own, (own, *(known[name] for name in sorted(names)))))
    return found


def _called(own: ast.AST, known: Mapping[str, ast.AST]) -> set[str]:
    names: set[str] = set()
    new = names_in(own) & set(known)
    while new:
        names |= new
        new = {name for found in new for name in names_in(known[found])} & set(known) - names
    return names


def names_in(tree: ast.AST) -> set[str]:
    return {node.id for node in nodes(tree) if isinstance(node, ast.Name)}


def app_paths(tree: ast.AST) -> Iterator[str]:
    """Absolute paths below /app that the code writes out as ``APP / "x" / "y"``."""
    inner = {id(node.left) for node in nodes(tree) if _is_path(node)}  # type: ignore[attr-defined]
    for node in nodes(tree):
        if _is_path(node) and id(node) not in inner:
            parts = _parts(node)
            if parts is not None:
                yield WORKDIR + "/".join(part.strip("/") for part in parts)


def _is_path(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)


def _parts(node: ast.AST) -> list[str] | None:
    """The written parts behind APP; None when it is another path, or a part is computed."""
    if isinstance(node, ast.Name):
        return [] if node.id == "APP" else None
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div):
        return None
    before, last = _parts(node.left), node.right
    if before is None or not isinstance(last, ast.Constant) or not isinstance(last.value, str):
        return None
    return [*before, last.value]


def is_output(path: str, outputs: Sequence[str]) -> bool:
    """Whether ``path`` is an output, lies below one, or is a folder above one."""
    plain = path.rstrip("/")
    folders = [output.rstrip("/") for output in outputs]
    return any(plain == o or plain.startswith(o + "/") or o.startswith(plain + "/") for o in folders)
