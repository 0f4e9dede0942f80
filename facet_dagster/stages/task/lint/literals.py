"""Values typed into a verifier that stand nowhere in what it judges by: often a slip of the hand."""

from __future__ import annotations

import ast
import codecs
import re
from collections.abc import Iterator

from facet_dagster.domain.environment import Environment
from facet_dagster.domain.ids import to_json
from facet_dagster.domain.python_source import nodes
from facet_dagster.domain.task import Draft, VerifierReply
from facet_dagster.stages.task.lint.rules import Problem, said
from facet_dagster.stages.task.render import body, checks_module, helpers, markdown, parsed, script

SHORTEST, SMALLEST = 8, 100
LARGEST = 1e15
_WORD = re.compile(r"[\w.:+-]+")
_CODE = re.compile(r"[\\\[\](){}^$*?|%<>=]|^\s*(select|insert|update|delete|create|pragma|with|drop)\b", re.IGNORECASE)
# Constants of calendars, units and number systems, and what errors= and rounding= know.
_NUMBERS = frozenset({128, 180, 255, 256, 360, 365, 366, 1024, 1440, 3600, 4096, 65535, 65536, 86400})
_TERMS = frozenset({"surrogateescape", "backslashreplace", "xmlcharrefreplace", "foreign_keys", "sqlite_master"})


def remarks(draft: Draft, environment: Environment, passed: frozenset[str] = frozenset()) -> Iterator[Problem]:
    """One for each check, or for the helpers, with all its unknown literals.

    ``passed`` are the checks that accept the solution's result: what they hold may stand there. When all do,
    the helpers need no source either.
    """
    known, own = _known(draft, environment), _own_keys(draft.verifier)
    checks = [check for check in draft.verifier.checks if check.id not in passed]
    places = [("The helpers hold", parsed(helpers(draft.verifier)))] if checks else []
    places += [(f"Check {check.id} holds", parsed(body(check))) for check in checks]
    for place, tree in places:
        if tree is None:
            continue
        unknown = [text for text in dict.fromkeys(_literals(tree)) if text not in own and not _occurs(text, known)]
        if unknown:
            shown = ", ".join(unknown[:5])
            text = f"{place} {shown}, which stands in neither e0, instruction nor solution: recompute or correct it."
            yield said("unknown-literal", text)


def _known(draft: Draft, environment: Environment) -> str:
    """Everything that a value may rightly be taken from."""
    recipe, e0 = environment.recipe, environment.e0
    parts = [markdown(draft.instruction), script(draft.solution.solve_sh), recipe.generator]
    parts += [file.content for file in recipe.files]
    for file in e0.files if e0 else ():
        parts += [file.path, file.content, to_json(file.inner), *file.rows.values()]
    return "\n".join(parts)


def _occurs(text: str, known: str) -> bool:
    return text in known or text.casefold() in known.casefold()


def _own_keys(verifier: VerifierReply) -> set[str]:
    """Names that the verifier gives to its own values: keys that it stores and keyword arguments."""
    tree = parsed(checks_module(verifier))
    found: set[str] = set()
    for node in nodes(tree) if tree else ():
        keys = node.keys if isinstance(node, ast.Dict) else []
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            keys = [node.slice]
        found |= {key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
    return found


def _literals(tree: ast.AST) -> Iterator[str]:
    left_out = {id(part) for node in nodes(tree) for top in _exempt(node) for part in nodes(top)}
    for node in nodes(tree):
        if not isinstance(node, ast.Constant) or id(node) in left_out:
            continue
        if isinstance(node.value, str):
            yield from _words(node.value)
        elif isinstance(node.value, int | float) and not isinstance(node.value, bool) and _is_data(node.value):
            yield repr(node.value)


def _exempt(node: ast.AST) -> Iterator[ast.AST]:
    """Messages, doc strings, patterns, names of encodings, and how much of something is shown."""
    if isinstance(node, ast.Assert) and node.msg is not None:
        yield node.msg
    elif isinstance(node, ast.Raise | ast.JoinedStr | ast.Slice):
        yield node
    elif isinstance(node, ast.Expr):
        yield from [node.value] if isinstance(node.value, ast.Constant) else []
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        yield node.right  # a path
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant):
        yield node.left
    elif isinstance(node, ast.Call):
        yield from (keyword.value for keyword in node.keywords if keyword.arg in ("rounding", "encoding", "errors"))
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name in ("decode", "encode", "format", "compile", "search", "fullmatch", "execute", "executemany"):
            yield from node.args[:1] if name != "format" else (node.func,)


def _words(text: str) -> Iterator[str]:
    if _CODE.search(text):
        return
    prose = len(text.split()) > 1
    for word in _WORD.findall(text):
        plain = word.strip(".:-+")
        if len(plain) < SHORTEST or plain in _TERMS or plain.startswith("ROUND_") or (prose and plain.isalpha()):
            continue
        if not _is_codec(plain):
            yield plain


def _is_codec(name: str) -> bool:
    try:
        codecs.lookup(name)
    except (LookupError, ValueError):
        return False
    return True


def _is_data(number: float) -> bool:
    return SMALLEST <= abs(number) < LARGEST and number not in _NUMBERS and not re.fullmatch(r"10+", str(int(number)))
