"""Parsing and walking of generated Python, safe in several threads."""

from __future__ import annotations

import ast
import threading
from functools import lru_cache

# CPython 3.11 counts the depth of tree building once for all threads: two at a time raise SystemError.
_ONE_AT_A_TIME = threading.Lock()


DEEPEST = 200


def parse(source: str) -> ast.Module:
    """The tree of ``source``. Raises SyntaxError, ValueError, RecursionError or MemoryError like ``ast.parse``.

    A tree of more than 200 levels raises RecursionError too: what walks or prints it later would.
    """
    with _ONE_AT_A_TIME:
        tree = ast.parse(source)
    level: list[ast.AST] = [tree]
    for _ in range(DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return tree
    raise RecursionError(f"it is nested more than {DEEPEST} levels deep")


@lru_cache(maxsize=1024)
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """``ast.walk`` of a tree that nobody changes, remembered: many rules look at the same few trees."""
    return tuple(ast.walk(tree))
