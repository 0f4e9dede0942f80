"""What must be nowhere in an environment: outputs, lines of the solution, values that the verifier expects."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from facet_dagster.domain.formats import decode
from facet_dagster.domain.task import Draft, VerifierReply
from facet_dagster.stages.task.render import body, helpers, markdown, parsed, script

OUTPUT = 40  # bytes of an output that is worth hiding
LINE = 12  # characters of a line that can be told from others
CODE = 40
LITERAL = 12
SHARE = 0.5
LEAST = 3
MOST = 400
SHOWN = 200
_CODE = re.compile(r"[()=$;]")
# Patterns, formats, queries and paths are no values.
_NO_VALUE = re.compile(r"[%{}\\\[\]^$*|<>]|^/|\b(?:SELECT|FROM|WHERE|utf-8)\b")


@dataclass(frozen=True)
class Answer:
    """``outputs``: path -> whole text. The sets hold what no input says: lines of outputs, of the solution, values."""

    outputs: Mapping[str, str]
    lines: Mapping[str, frozenset[str]]
    code: frozenset[str]
    literals: frozenset[str]

    def found_in(self, text: str) -> str | None:
        """What of the answer stands in ``text``, as a sentence; None when it is not enough to help."""
        return self.whole_output(text) or self._large_part(text) or self._solution(text) or self._values(text)

    def whole_output(self, text: str) -> str | None:
        squeezed = squeeze(text)
        for path, content in self.outputs.items():
            if squeeze(content) in squeezed:
                return f"the whole of {path}: {content[:SHOWN]!r}"
        return None

    def _large_part(self, text: str) -> str | None:
        for path, lines in self.lines.items():
            found = sorted(line for line in lines if line in text)
            if len(found) >= max(LEAST, SHARE * len(lines)):
                return f"{len(found)} of the {len(lines)} lines of {path} that no input holds: {found[0][:SHOWN]!r}"
        return None

    def _solution(self, text: str) -> str | None:
        return _enough(self.code, text, "lines of the solution")

    def _values(self, text: str) -> str | None:
        return _enough(self.literals, text, "values that the verifier expects")


def squeeze(text: str) -> str:
    """Without blanks and line ends: another layout of the same text is the same."""
    return "".join(text.split())


def _enough(wanted: frozenset[str], text: str, what: str) -> str | None:
    found = sorted(item for item in wanted if item in text)
    if len(found) < max(LEAST, SHARE * len(wanted)):
        return None
    return f"{len(found)} of {len(wanted)} {what}: {found[0][:SHOWN]!r}"


def answer_of(draft: Draft, outputs: Mapping[str, bytes], inputs: Iterable[str]) -> Answer:
    """``outputs`` as the solution left them; ``inputs`` are texts from which an agent may rightly take everything."""
    texts = {path: _plain(data) for path, data in outputs.items() if len(data) >= OUTPUT}
    given = "\n".join([markdown(draft.instruction), *inputs])
    lines = {path: frozenset(_own_lines(text, given)) for path, text in texts.items()}
    code = [line for line in _lines(script(draft.solution.solve_sh)) if len(line) >= CODE and _CODE.search(line)]
    return Answer(
        outputs={path: text for path, text in texts.items() if text},
        lines=lines,
        code=frozenset(line for line in code if not line.startswith("#") and line not in given),
        literals=frozenset(text for text in _literals(draft.verifier) if text not in given),
    )


def _plain(data: bytes) -> str:
    return (decode(data)[1] or "").strip()


def _lines(text: str) -> Iterator[str]:
    return (line.strip() for line in text.splitlines() if len(line.strip()) >= LINE)


def _own_lines(text: str, given: str) -> list[str]:
    """Lines that no input holds; enough of them to know a large part by."""
    return [line for line in list(dict.fromkeys(_lines(text)))[:MOST] if line not in given]


def _literals(verifier: VerifierReply) -> Iterator[str]:
    """Texts with a digit or a blank that a check may compare with: no messages, docstrings or patterns."""
    for tree in [parsed(helpers(verifier)), *(parsed(body(check)) for check in verifier.checks)]:
        skipped = {id(node) for top in ast.walk(tree) for node in _said(top)} if tree else set()
        for node in ast.walk(tree) if tree else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
                text = node.value.strip()
                if len(text) >= LITERAL and not _NO_VALUE.search(text):
                    yield text


def _said(node: ast.AST) -> Iterator[ast.AST]:
    """What is told to people: messages of assertions and exceptions, docstrings, parts of f-strings."""
    if isinstance(node, ast.Assert) and node.msg:
        yield from ast.walk(node.msg)
    elif isinstance(node, ast.Raise | ast.JoinedStr):
        yield from ast.walk(node)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield node.value
