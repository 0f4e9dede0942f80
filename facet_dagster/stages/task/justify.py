"""An expected value is changed only for a reason that is written down: a rule, and a row to which it applies."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from facet_dagster.domain.environment import Environment
from facet_dagster.domain.ids import to_json
from facet_dagster.domain.second import quoted
from facet_dagster.domain.task import Draft, Quote, VerifierReply
from facet_dagster.stages.task.render import body, helpers, markdown, parsed, rules_text

SHORTEST_ROW = 3
# What methods are told about form and fields is no expected value; patterns, which say a form, are none either.
_OPTIONS = frozenset(
    {"encoding", "errors", "newline", "mode", "delimiter", "sep", "quotechar", "maxsplit", "indent", "timeout", "uri"}
    | {"flags", "key", "reverse", "strict", "start", "fieldnames", "restkey", "ensure_ascii", "sort_keys", "default"}
)
_FORM = frozenset(
    {"get", "pop", "setdefault", "split", "rsplit", "partition", "rpartition", "replace", "strip", "lstrip", "rstrip"}
    | {"removeprefix", "removesuffix", "encode", "decode", "join", "format", "execute", "executemany"}
    | {"compile", "search", "match", "fullmatch", "findall", "finditer", "sub"}
)


def unjustified(old: Draft, new: Draft, quotes: list[Quote], environment: Environment) -> str:
    """Why the new verifier's expected values may not stand; empty when none was changed, or a quote justifies it.

    Counted are literals with which a check or helper compares, or that it gives to a helper, returns or stores:
    texts and numbers, tolerances among them. Names of fields, paths and messages are none. One quote is enough, as
    one misread rule may have many values; a new check changes none.
    """
    changed = changed_values(old.verifier, new.verifier)
    if not changed or any(_holds(quote, old, environment) for quote in quotes):
        return ""
    needed = "quotes must hold a sentence of the rules file or the instruction and a row of the initial state"
    lacking = "are not written there" if quotes else "are missing"
    return f"The edit changes an expected value ({changed}), so {needed}, letter by letter; they {lacking}."


def changed_values(old: VerifierReply, new: VerifierReply) -> str:
    """The first place where literals gave way to others, and what changed; empty when there is none."""
    before, after = _places(old), _places(new)
    for place in before.keys() & after.keys():
        gone, come = before[place] - after[place], after[place] - before[place]
        if gone and come:
            return f"{place}: {', '.join(sorted(gone)[:3])} to {', '.join(sorted(come)[:3])}"[:300]
    return ""


def _places(verifier: VerifierReply) -> dict[str, Counter[str]]:
    sources = {"helpers": helpers(verifier), **{check.id: body(check) for check in verifier.checks}}
    return {place: Counter(_expected(parsed(source) or ast.Module([], []))) for place, source in sources.items()}


def _expected(tree: ast.AST) -> Iterator[str]:
    left_out = {id(part) for node in ast.walk(tree) for top in _no_values(node) for part in ast.walk(top)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in left_out and type(node.value) in (str, int, float):
            yield repr(node.value)


def _no_values(node: ast.AST) -> Iterator[ast.AST]:
    """Messages, doc strings, paths, names of fields, and options of calls."""
    if isinstance(node, ast.Assert) and node.msg is not None:
        yield node.msg
    elif isinstance(node, ast.keyword):  # a tolerance is a value
        if node.arg in _OPTIONS:
            yield node
    elif isinstance(node, ast.Raise | ast.Slice) or (
        isinstance(node, ast.JoinedStr) and any(isinstance(part, ast.FormattedValue) for part in node.values)
    ):
        yield node
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield node.value
    elif isinstance(node, ast.Subscript):
        yield node.slice
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        yield node.right
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _FORM:
        yield from node.args


def _holds(quote: Quote, draft: Draft, environment: Environment) -> bool:
    rule = quoted(quote.rule, rules_text(environment), markdown(draft.instruction))
    return rule and _stands(quote.row, environment)


def _stands(row: str, environment: Environment) -> bool:
    """Whether a row stands in the initial state as it was shown, or in a literal file of which it was made."""
    wanted = " ".join(row.split())
    files = environment.e0.files if environment.e0 else ()
    texts = [text for file in files for text in (file.content, to_json(file.inner), *file.rows.values())]
    texts += [file.content for file in environment.recipe.files]
    return len(wanted) >= SHORTEST_ROW and any(wanted in " ".join(text.split()) for text in texts)
