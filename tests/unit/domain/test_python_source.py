"""Generated code is parsed by several threads at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from facet_dagster.domain.python_source import parse

DEEP = "x = " + "+".join(f"(({n}))" for n in range(300)) + "\n" + "def f(a):\n  return [b for b in a if b]\n" * 200


def test_many_threads_parse_the_same_tree() -> None:
    with ThreadPoolExecutor(8) as pool:
        trees = list(pool.map(parse, [DEEP] * 40))
    assert {len(tree.body) for tree in trees} == {201}


def test_a_syntax_error_is_said_and_frees_the_lock() -> None:
    for _ in range(2):
        with pytest.raises(SyntaxError):
            parse("def (")
