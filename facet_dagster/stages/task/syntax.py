"""Rules on the verifier's Python, read from its syntax tree; nothing of it is run here.

They keep a verifier deterministic and make sure that each check can fail. They are no sandbox: the
verifier runs in a container of its own without network.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Mapping

from facet_dagster.domain.python_source import parse
from facet_dagster.domain.task import Check, VerifierReply
from facet_dagster.stages.task.render import CHECK_HEADER, body, helpers, parsed


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MODULES = _words(
    """ast base64 binascii bisect bz2 calendar codecs collections configparser contextlib copy csv dataclasses datetime
    decimal difflib enum fnmatch fractions functools gzip hashlib heapq html io ipaddress itertools json lzma math
    operator os pathlib re shlex shutil sqlite3 stat statistics string struct sys tarfile tempfile textwrap tomllib
    typing unicodedata wave xml zipfile zlib zoneinfo __future__"""
)
OS_NAMES = _words("path sep linesep stat lstat access listdir scandir walk fspath R_OK W_OK X_OK F_OK")
BANNED_CALLS = _words("eval exec compile __import__ input breakpoint globals vars exit quit setattr delattr")
CLOCK_NAMES = frozenset({"now", "utcnow", "today"})
DUNDERS = frozenset({"__name__", "__doc__", "__init__", "__post_init__", "__len__", "__iter__"})
_HASH = re.compile(r"\b[0-9a-f]{64}\b")
_CATCH_ALL = frozenset({"Exception", "BaseException", "AssertionError"})
Function = ast.FunctionDef | ast.AsyncFunctionDef


def problems(verifier: VerifierReply) -> Iterator[str]:
    """One sentence for each broken rule, with the check it stands in."""
    library = parsed(helpers(verifier))
    if library is None:
        yield f"The helpers are no valid Python: {syntax_error(helpers(verifier))}"
        library = ast.Module(body=[], type_ignores=[])
    else:
        yield from _helper_problems(library)
    raisers = _raising(library)
    for check in verifier.checks:
        yield from check_problems(check, raisers)
    yield from undefined_names(verifier)


def check_problems(check: Check, raisers: frozenset[str]) -> Iterator[str]:
    """``raisers`` are the helpers whose call can fail a check."""
    source = body(check)
    tree = parsed(source)
    if tree is None or not tree.body:
        yield f"Check {check.id} is no valid Python: {syntax_error(source)}"
        return
    for text in _forbidden(tree):
        yield f"Check {check.id} {text}."
    if not can_fail(tree.body, raisers):
        yield f"Check {check.id} cannot fail: it holds no reachable assert and calls no helper that asserts."
    if any(_states_a_truth(node) for node in ast.walk(tree)):
        yield f"Check {check.id} returns or states a comparison and does nothing with it; it must assert it."
    if any(_swallows(node) for node in ast.walk(tree)):
        yield f"Check {check.id} catches the failure of its own assert."
    if any(isinstance(node, ast.Yield | ast.YieldFrom | ast.Await | ast.AsyncFunctionDef) for node in ast.walk(tree)):
        yield f"Check {check.id} is a generator or coroutine, which runs nothing when it is called."
    if _takes_arguments(tree.body[0]) and len(tree.body) == 2:
        yield f"Check {check.id} is a function with arguments; a check takes none."


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


def can_fail(statements: list[ast.stmt], raisers: frozenset[str]) -> bool:
    """Whether a statement that is reached (none stands behind a top-level return) can raise AssertionError."""
    inner = [node for statement in statements for node in ast.walk(statement) if isinstance(node, Function)]
    local = raisers | {node.name for node in inner if can_fail(node.body, raisers)}
    for statement in statements:
        if isinstance(statement, Function):
            continue  # defining is not calling
        if any(_raises(node, local) for node in ast.walk(statement)):
            return True
        if isinstance(statement, ast.Return):
            return False
    return False


def _raises(node: ast.AST, raisers: frozenset[str]) -> bool:
    if isinstance(node, ast.Assert):
        return not (isinstance(node.test, ast.Constant) and bool(node.test.value)) and not _true_tuple(node.test)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in raisers
    return isinstance(node, ast.Raise)


def _true_tuple(test: ast.expr) -> bool:
    return isinstance(test, ast.Tuple) and bool(test.elts)


def _raising(library: ast.Module) -> frozenset[str]:
    """Fixed point: a helper raises when it asserts, or calls one that does."""
    functions: Mapping[str, Function] = {node.name: node for node in library.body if isinstance(node, Function)}
    known: frozenset[str] = frozenset()
    while True:
        found = frozenset(name for name, node in functions.items() if can_fail(node.body, known))
        if found == known:
            return known
        known = found


def _helper_problems(library: ast.Module) -> Iterator[str]:
    for text in _forbidden(library):
        yield f"The helpers: a function {text}."
    for node in library.body:
        runs = isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
        if runs or isinstance(node, ast.For | ast.While | ast.With | ast.Assert | ast.Raise):
            yield f"The helpers run code on import (line {node.lineno}); they must only define."


def _forbidden(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (f"imports {a.name}" for a in node.names if not _allowed(a.name))
        elif isinstance(node, ast.ImportFrom) and not _allowed(node.module or ""):
            yield f"imports {node.module}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in BANNED_CALLS:
            yield f"calls {node.func.id}()"
        elif isinstance(node, ast.Attribute):
            yield from _forbidden_attribute(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _HASH.search(node.value):
            yield "holds a typed hash; compare with E0_SHA or compute it"


def _forbidden_attribute(node: ast.Attribute) -> Iterator[str]:
    owner = node.value.id if isinstance(node.value, ast.Name) else ""
    if owner == "os" and node.attr not in OS_NAMES:
        yield f"uses os.{node.attr}"
    if node.attr in CLOCK_NAMES and owner in {"datetime", "date", "dt", ""}:
        yield f"reads the clock with {node.attr}()"
    if owner == "sys" and node.attr in {"exit", "modules", "settrace", "setprofile"}:
        yield f"uses sys.{node.attr}"
    if node.attr.startswith("__") and node.attr not in DUNDERS:
        yield f"uses {node.attr}"


def _allowed(module: str) -> bool:
    return module.partition(".")[0] in MODULES


def _states_a_truth(node: ast.AST) -> bool:
    """``return a == b`` or a bare ``a == b``: meant as a check, and never one."""
    value = node.value if isinstance(node, ast.Return | ast.Expr) else None
    if isinstance(value, ast.UnaryOp):
        value = value.operand if isinstance(value.op, ast.Not) else None
    constant = isinstance(node, ast.Return) and isinstance(value, ast.Constant) and isinstance(value.value, bool)
    return constant or isinstance(value, ast.Compare | ast.BoolOp)


def _swallows(node: ast.AST) -> bool:
    """A ``try`` with an assert whose handler catches it and goes on."""
    if not isinstance(node, ast.Try) or not any(isinstance(n, ast.Assert) for s in node.body for n in ast.walk(s)):
        return False
    return any(
        _catches(h) and not any(isinstance(n, ast.Raise | ast.Assert) for n in ast.walk(h)) for h in node.handlers
    )


def _catches(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return any(isinstance(n, ast.Name) and n.id in _CATCH_ALL for n in ast.walk(handler.type))


def _takes_arguments(node: ast.stmt) -> bool:
    return isinstance(node, Function) and bool(node.args.args or node.args.kwonlyargs or node.args.vararg)


def undefined_names(verifier: VerifierReply) -> Iterator[str]:
    """Names in checks that are neither built in, nor in the header, nor defined by the helpers or the check."""
    library = parsed(CHECK_HEADER + "\n" + helpers(verifier))
    if library is None:
        return
    shared = _bound(library) | set(dir(builtins)) | {"__file__"}
    lost = sorted(_used(library) - shared)
    if lost:
        yield f"The helpers use {', '.join(lost)}, which is not defined."
    for check in verifier.checks:
        tree = parsed(body(check)) or ast.Module(body=[], type_ignores=[])
        missing = sorted(_used(tree) - shared - _bound(tree))
        if missing:
            yield f"Check {check.id} uses {', '.join(missing)}, which is not defined."


def _used(tree: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _bound(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, Function | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            names.add(node.name)
    return names


def tree_of(check: Check) -> ast.Module | None:
    return parsed(body(check))


def count_asserts(verifier: VerifierReply) -> Iterator[int]:
    """Assertions that can fail: in the helpers, then in each check."""
    for tree in (parsed(helpers(verifier)), *(tree_of(check) for check in verifier.checks)):
        yield (
            sum(isinstance(n, ast.Assert | ast.Raise) and _raises(n, frozenset()) for n in ast.walk(tree))
            if tree
            else 0
        )
