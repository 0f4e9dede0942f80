"""Whether a check can fail, read from its syntax tree; nothing of it is run here."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from facet_dagster.domain.python_source import nodes, parse
from facet_dagster.domain.task import Check, VerifierReply
from facet_dagster.stages.task.render import body, helpers, parsed

Function = ast.FunctionDef | ast.AsyncFunctionDef


def raising_helpers(verifier: VerifierReply) -> frozenset[str]:
    """Names of helper functions whose call can fail a check."""
    return _raising(parsed(helpers(verifier)) or ast.Module(body=[], type_ignores=[]))


def syntax_error(source: str) -> str:
    try:
        parse(source)
    except SyntaxError as error:
        return f"{error.msg} in line {error.lineno}: {(error.text or '').strip()[:80]!r}"
    except (ValueError, RecursionError, MemoryError) as error:
        return str(error) or type(error).__name__
    return "its statements do not fit into a function"


def can_fail(statements: list[ast.stmt], raisers: frozenset[str], known: dict[ast.AST, bool] | None = None) -> bool:
    """Whether a statement that is reached (none stands behind a top-level return) can raise AssertionError.

    ``known`` are inner functions that were looked at already: each is looked at once, however deep they are nested.
    """
    known = {} if known is None else known
    inner = [node for statement in statements for node in nodes(statement) if isinstance(node, Function)]
    for node in reversed(inner):  # the deepest first
        if node not in known:
            known[node] = can_fail(node.body, raisers, known)
    local = raisers | {node.name for node in inner if known[node]}
    for statement in statements:
        if isinstance(statement, Function):
            continue  # defining is not calling
        if any(_raises(node, local) for node in nodes(statement)):
            return True
        if isinstance(statement, ast.Return):
            return False
    return False


def _raises(node: ast.AST, raisers: frozenset[str]) -> bool:
    if isinstance(node, ast.Assert):
        return not is_always_true(node.test)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in raisers
    return isinstance(node, ast.Raise)


def is_always_true(test: ast.expr) -> bool:
    """A true constant, a tuple, ``or`` with one of these, a length of at least 0, or a name compared with itself."""
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if isinstance(test, ast.Tuple):
        return bool(test.elts)
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        return any(is_always_true(value) for value in test.values)
    return isinstance(test, ast.Compare) and len(test.ops) == 1 and _holds(test.left, test.ops[0], test.comparators[0])


def _holds(left: ast.expr, operator: ast.cmpop, right: ast.expr) -> bool:
    if isinstance(operator, ast.GtE) and isinstance(right, ast.Constant) and right.value == 0:
        return isinstance(left, ast.Call) and isinstance(left.func, ast.Name) and left.func.id == "len"
    same = isinstance(operator, ast.Eq | ast.Is) and isinstance(left, ast.Name) and isinstance(right, ast.Name)
    return same and left.id == right.id  # type: ignore[attr-defined]


def _raising(library: ast.Module) -> frozenset[str]:
    """Fixed point: a helper raises when it asserts, or calls one that does."""
    functions: Mapping[str, Function] = {node.name: node for node in library.body if isinstance(node, Function)}
    known: frozenset[str] = frozenset()
    while True:
        found = frozenset(name for name, node in functions.items() if can_fail(node.body, known))
        if found == known:
            return known
        known = found


def tree_of(check: Check) -> ast.Module | None:
    return parsed(body(check))


def count_asserts(verifier: VerifierReply) -> Iterator[int]:
    """Assertions that can fail: in the helpers, then in each check."""
    for tree in (parsed(helpers(verifier)), *(tree_of(check) for check in verifier.checks)):
        yield (
            sum(isinstance(n, ast.Assert | ast.Raise) and _raises(n, frozenset()) for n in nodes(tree)) if tree else 0
        )
