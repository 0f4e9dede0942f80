"""A model's text to a pydantic value: tolerant about form, strict about content.

Models fence their JSON, put prose before it, leave trailing commas, quote badly, or send two objects. All
of that is read. What is never done is to complete a reply that was cut off: a half-written file that
parses is worse than a repair call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic

import json_repair
from pydantic import ValidationError

from facet_dagster.domain.outcome import Value
from facet_dagster.ports import Reply

LONGEST = 2_000_000  # characters of a reply that is read at all
REPAIRABLE = 200_000  # json-repair is worse than linear: 0.4 s at 140,000 characters, 7 s at 560,000
DEEPEST = 100
MOST_OBJECTS = 20
SHOWN_ERRORS = 10


class RawReply(Value):
    """One reply as received. ``finish`` is the provider's finish_reason (``stop``, ``length``, ...).

    ``reasoning`` is what the model thought aloud; it is kept and never parsed. Tokens are counts.
    """

    text: str
    finish: str = "stop"
    reasoning: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True)
class Parsed(Generic[Reply]):
    """``value``, or None and the ``problem`` in words that a model can act on."""

    value: Reply | None
    problem: str = ""


def received(
    text: str, *, finish: str = "stop", reasoning: str = "", prompt_tokens: int = 0, completion_tokens: int = 0
) -> RawReply:
    """A RawReply that can be stored: thoughts split off, valid UTF-8, at most one character over LONGEST."""
    thought, answer = split_reasoning(text)
    return RawReply(
        text=_utf8(answer[: LONGEST + 1]),
        finish=finish or "stop",
        reasoning=_utf8((reasoning or thought)[:LONGEST]),
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
    )


def split_reasoning(text: str) -> tuple[str, str]:
    """(reasoning, answer) of a text that may start with a ``<think>`` block, also one whose opening tag is missing."""
    if text.lstrip().startswith("<think>") and "</think>" not in text:
        return text.strip(), ""
    thought, end, answer = text.partition("</think>")
    if not end or text.lstrip().startswith(("{", "```")):
        return "", text
    return thought.lstrip().removeprefix("<think>").strip(), answer


def parse(reply: RawReply, schema: type[Reply]) -> Parsed[Reply]:
    """Read ``reply`` as ``schema``. Never raises for what a model wrote."""
    refused = _refusal(reply)
    if refused:
        return Parsed(None, refused)
    spans, open_end = objects(reply.text)
    problem = ""
    for data in _readings(spans):
        parsed = _validate(data, schema)
        if parsed.value is not None:
            return parsed
        problem = problem or parsed.problem
    return Parsed(None, problem or _no_object(spans, open_end=open_end))


def _refusal(reply: RawReply) -> str:
    if len(reply.text) > LONGEST:
        return f"the reply is longer than {LONGEST:,} characters"
    if reply.finish == "length":
        return "the reply was cut off by max_tokens: answer more briefly"
    if reply.finish == "content_filter":
        return "the provider's content filter stopped the reply"
    if not reply.text.strip():
        return "the reply holds no text outside its reasoning" if reply.reasoning else "the reply was empty"
    return ""


def _no_object(spans: list[str], *, open_end: bool) -> str:
    if spans:
        return "the text in braces is not valid JSON"
    if open_end:
        return "the JSON object is never closed: the reply was cut off, or a quote inside a text is not escaped"
    return "the reply holds no JSON object"


def objects(text: str) -> tuple[list[str], bool]:
    """The texts of the outermost {...} of ``text``, longest first, and whether a last one never closes."""
    spans: list[str] = []
    start, depth, deepest = -1, 0, 0
    for position in _braces(text):
        if text[position] == "{":
            start = position if depth == 0 else start
            depth += 1
            deepest = max(deepest, depth)
        elif depth:
            depth -= 1
            if depth == 0 and deepest <= DEEPEST:
                spans.append(text[start : position + 1])
            deepest = deepest if depth else 0
    return sorted(spans, key=len, reverse=True)[:MOST_OBJECTS], depth > 0


_TOKEN = re.compile(r'[{}"]|\\.', re.DOTALL)


def _braces(text: str) -> Iterator[int]:
    """Positions of the braces that are not inside a string of an object; one pass."""
    depth, quoted = 0, False
    for token in _TOKEN.finditer(text):
        mark = token.group()
        if mark == '"':
            quoted = depth > 0 and not quoted
        elif len(mark) == 1 and not quoted:
            depth = max(0, depth + (1 if mark == "{" else -1))
            yield token.start()


def _readings(spans: list[str]) -> Iterator[Any]:
    """Every span read strictly, then every span that was not valid JSON, repaired."""
    broken = []
    for span in spans:
        try:
            yield json.loads(span, strict=False)
        except (ValueError, RecursionError):
            broken.append(span)
    for span in broken:
        if len(span) <= REPAIRABLE:
            try:
                yield json_repair.loads(span)
            except (ValueError, RecursionError):
                continue


def _validate(data: Any, schema: type[Reply]) -> Parsed[Reply]:
    bad = _unstorable(data)
    if bad:
        return Parsed(None, f"a text holds {bad}")
    try:
        return Parsed(schema.model_validate(data))
    except ValidationError as error:
        return Parsed(None, _explain(error))


def _unstorable(data: Any) -> str:
    """Text that neither a database nor a file takes."""
    if isinstance(data, dict):
        return next(filter(None, (_unstorable(item) for pair in data.items() for item in pair)), "")
    if isinstance(data, list):
        return next(filter(None, map(_unstorable, data)), "")
    if not isinstance(data, str):
        return ""
    if "\0" in data:
        return "a NUL character"
    return "" if _utf8(data) == data else "half a surrogate pair"


def _explain(error: ValidationError) -> str:
    """One line per field: where, and what is wrong; never the input, which may be long."""
    errors = error.errors(include_url=False, include_input=False, include_context=False)
    lines = [f"{'.'.join(map(str, e['loc'])) or 'the object'}: {e['msg']}" for e in errors[:SHOWN_ERRORS]]
    if len(errors) > SHOWN_ERRORS:
        lines.append(f"and {len(errors) - SHOWN_ERRORS} more")
    return "\n".join(lines)


def _utf8(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
