"""Generated code is parsed by several threads at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from facet_dagster.domain.python_source import parse
from facet_dagster.stages.task.syntax import can_fail

DEEP = "x = " + "+".join(f"(({n}))" for n in range(150)) + "\n" + "def f(a):\n  return [b for b in a if b]\n" * 200


def test_many_threads_parse_the_same_tree() -> None:
    with ThreadPoolExecutor(8) as pool:
        trees = list(pool.map(parse, [DEEP] * 40))
    assert {len(tree.body) for tree in trees} == {201}


def test_a_syntax_error_is_said_and_frees_the_lock() -> None:
    for _ in range(2):
        with pytest.raises(SyntaxError):
            parse("def (")


def test_what_is_nested_too_deeply_to_be_walked_is_refused() -> None:
    with pytest.raises(RecursionError, match="200 levels"):
        parse("x = " + "+".join("a" * 300))


def test_nested_functions_are_looked_at_once_each() -> None:
    depth = 60  # twice as long for each level when every function were looked at from all that enclose it
    source = "".join(f"{' ' * n}def f{n}():\n" for n in range(depth)) + f"{' ' * depth}assert False\n"
    assert not can_fail(parse(source).body, frozenset())
    assert can_fail(parse(f"{source}f0()\n").body, frozenset()) is False
    assert can_fail(parse("def f():\n def g():\n  assert False\n g()\nf()\n").body, frozenset())
