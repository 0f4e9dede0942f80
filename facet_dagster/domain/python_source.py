"""Parsing of generated Python, safe in several threads."""

from __future__ import annotations

import ast
import threading

# CPython 3.11 counts the depth of tree building once for all threads: two at a time raise SystemError.
_ONE_AT_A_TIME = threading.Lock()


def parse(source: str) -> ast.Module:
    """The tree of ``source``. Raises SyntaxError, ValueError, RecursionError or MemoryError like ``ast.parse``."""
    with _ONE_AT_A_TIME:
        return ast.parse(source)
