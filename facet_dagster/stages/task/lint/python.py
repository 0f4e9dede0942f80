"""Rules on the verifier's Python. They keep it deterministic and make sure that each check can fail.

They are no sandbox: the verifier runs in a container of its own without network.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator

from facet_dagster.domain.python_source import nodes
from facet_dagster.domain.task import Check, VerifierReply
from facet_dagster.stages.task.lint.rules import Problem, said
from facet_dagster.stages.task.render import CHECK_HEADER, body, helpers, parsed
from facet_dagster.stages.task.syntax import Function, can_fail, is_always_true, raising_helpers, syntax_error


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
_OWN_NAME = frozenset({"os", "sys"})
_SYS_NAMES = _words("byteorder maxsize maxunicode float_info version_info getsizeof")
_CATCH_ALL = frozenset({"Exception", "BaseException", "AssertionError"})


def problems(verifier: VerifierReply) -> Iterator[Problem]:
    """One sentence for each broken rule, with the check it stands in."""
    library = parsed(helpers(verifier))
    if library is None:
        yield said("python-syntax", f"The helpers are no valid Python: {syntax_error(helpers(verifier))}")
    else:
        yield from _helper_problems(library)
    yield from undefined_names(verifier)
    raisers = raising_helpers(verifier)
    for check in verifier.checks:
        yield from check_problems(check, raisers)


def check_problems(check: Check, raisers: frozenset[str]) -> Iterator[Problem]:
    """``raisers`` are the helpers whose call can fail a check."""
    name, source = f"Check {check.id}", body(check)
    tree = parsed(source)
    if tree is None or not tree.body:
        yield said("python-syntax", f"{name} is no valid Python: {syntax_error(source)}")
        return
    yield from (said(rule, f"{name} {text}.") for rule, text in _forbidden(tree))
    if not can_fail(tree.body, raisers):
        text = f"{name} cannot fail: it holds no reachable assert and calls no helper that asserts."
        yield said("cannot-fail", text)
    yield from _idle_asserts(name, tree)
    if any(_states_a_truth(node) for node in nodes(tree)):
        text = f"{name} returns or states a comparison and does nothing with it; it must assert it."
        yield said("lost-comparison", text)
    if any(_swallows(node) for node in nodes(tree)):
        yield said("caught-failure", f"{name} catches the failure of its own assert.")
    if any(isinstance(node, ast.Yield | ast.YieldFrom | ast.Await | ast.AsyncFunctionDef) for node in nodes(tree)):
        yield said("never-run", f"{name} is a generator or coroutine, which runs nothing when it is called.")
    if _takes_arguments(tree.body[0]) and len(tree.body) == 2:
        yield said("never-run", f"{name} is a function with arguments; a check takes none.")


def _helper_problems(library: ast.Module) -> Iterator[Problem]:
    for rule, text in _forbidden(library):
        yield said(rule, f"The helpers: a function {text}.")
    yield from _idle_asserts("A helper", library)
    for node in library.body:
        runs = isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
        if runs or isinstance(node, ast.For | ast.While | ast.With | ast.Assert | ast.Raise):
            text = f"The helpers run code on import (line {node.lineno}); they must only define."
            yield said("code-on-import", text)


def _idle_asserts(place: str, tree: ast.AST) -> Iterator[Problem]:
    """Asserts that nothing can fail, such as one of a tuple. ``assert True`` may be a way to write nothing."""
    for node in nodes(tree):
        if isinstance(node, ast.Assert) and not isinstance(node.test, ast.Constant) and is_always_true(node.test):
            text = f"{place} cannot fail at {ast.unparse(node)[:120]!r}: what it asserts is always true."
            yield said("cannot-fail", text)


def _forbidden(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Rule and what is done against it."""
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            yield from (("forbidden-module", f"imports {a.name}") for a in node.names if not _allowed(a.name))
            renamed = [a.name for a in node.names if a.name in _OWN_NAME and a.asname not in (None, a.name)]
            yield from (("forbidden-call", f"imports {name} under another name") for name in renamed)
        elif isinstance(node, ast.ImportFrom):
            yield from _forbidden_names(node)
        elif isinstance(node, ast.Call):
            yield from _forbidden_call(node)
        elif isinstance(node, ast.Attribute):
            yield from _forbidden_attribute(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _HASH.search(node.value):
            yield "typed-hash", "holds a typed hash; compare with E0_SHA or compute it"


def _forbidden_names(node: ast.ImportFrom) -> Iterator[tuple[str, str]]:
    module = node.module or ""
    if not _allowed(module):
        yield "forbidden-module", f"imports {module}"
    allowed = {"os": OS_NAMES, "sys": _SYS_NAMES}.get(module)
    if allowed is not None:
        yield from (("forbidden-call", f"imports {a.name} from {module}") for a in node.names if a.name not in allowed)


def _forbidden_call(node: ast.Call) -> Iterator[tuple[str, str]]:
    if isinstance(node.func, ast.Name) and node.func.id in BANNED_CALLS:
        yield "forbidden-call", f"calls {node.func.id}()"
    if isinstance(node.func, ast.Name) and node.func.id == "getattr":
        owners = [first.id for first in node.args[:1] if isinstance(first, ast.Name)]
        yield from (("forbidden-call", f"looks up a name in {name}") for name in owners if name in _OWN_NAME)
    if isinstance(node.func, ast.Attribute) and node.func.attr in CLOCK_NAMES:
        yield "verifier-clock", f"reads the clock with {node.func.attr}()"


def _forbidden_attribute(node: ast.Attribute) -> Iterator[tuple[str, str]]:
    owner = node.value.id if isinstance(node.value, ast.Name) else ""
    if owner == "os" and node.attr not in OS_NAMES:
        yield "forbidden-call", f"uses os.{node.attr}"
    if node.attr in CLOCK_NAMES and owner in {"datetime", "date", "dt", ""}:
        yield "verifier-clock", f"reads the clock with {node.attr}()"
    if owner == "sys" and node.attr in {"exit", "modules", "settrace", "setprofile"}:
        yield "forbidden-call", f"uses sys.{node.attr}"
    if node.attr.startswith("__") and node.attr not in DUNDERS:
        yield "forbidden-call", f"uses {node.attr}"


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
    if not isinstance(node, ast.Try) or not any(isinstance(n, ast.Assert) for s in node.body for n in nodes(s)):
        return False
    return any(_catches(h) and not any(isinstance(n, ast.Raise | ast.Assert) for n in nodes(h)) for h in node.handlers)


def _catches(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return any(isinstance(n, ast.Name) and n.id in _CATCH_ALL for n in nodes(handler.type))


def _takes_arguments(node: ast.stmt) -> bool:
    return isinstance(node, Function) and bool(node.args.args or node.args.kwonlyargs or node.args.vararg)


def undefined_names(verifier: VerifierReply) -> Iterator[Problem]:
    """Names in checks that are neither built in, nor in the header, nor defined by the helpers or the check."""
    library = parsed(CHECK_HEADER + "\n" + helpers(verifier))
    if library is None:
        return
    shared = _bound(library) | set(dir(builtins)) | {"__file__"}
    lost = sorted(_used(library) - shared)
    if lost:
        yield said("undefined-name", f"The helpers use {', '.join(lost)}, which is not defined.")
    for check in verifier.checks:
        tree = parsed(body(check)) or ast.Module(body=[], type_ignores=[])
        missing = sorted(_used(tree) - shared - _bound(tree))
        if missing:
            yield said("undefined-name", f"Check {check.id} uses {', '.join(missing)}, which is not defined.")


def _used(tree: ast.AST) -> set[str]:
    return {n.id for n in nodes(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _bound(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in nodes(tree):
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
