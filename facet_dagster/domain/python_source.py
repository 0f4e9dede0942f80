"""Parsing and walking of generated Python, safe in several threads."""

from __future__ import annotations

import ast
import threading
from functools import lru_cache

# CPython 3.11 counts the depth of tree building once for all threads: two at a time raise SystemError.
_ONE_AT_A_TIME = threading.Lock()


def parse(source: str) -> ast.Module:
    """The tree of ``source``. Raises SyntaxError, ValueError, RecursionError or MemoryError like ``ast.parse``."""
    with _ONE_AT_A_TIME:
        return ast.parse(source)


@lru_cache(maxsize=1024)
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """``ast.walk`` of a tree that nobody changes, remembered: many rules look at the same few trees."""
    return tuple(ast.walk(tree))
