"""Layouts of JSON and of JSON Lines."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

from facet_dagster.domain.variants.layout import CAP, Layout, Span, lines_of

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


def json_layout(text: str) -> Layout:
    """Raises one of BAD when ``text`` is no JSON."""
    json.loads(text)
    layout = Layout("json", _json_value, null="null")
    _walk(text, _skip(text, 0), "", layout)
    return layout


def jsonl_layout(text: str) -> Layout:
    """One value a line; broken lines stay as they are. Raises ValueError when no line is a value."""
    known: dict[str, Any] = {}
    layout = Layout("jsonl", partial(_jsonl_value, known=known), null="null", repeats=True)
    spans: list[Span] = []
    for at, line in lines_of(text):
        body = line.strip()
        start = at + line.find(body)
        if body and len(spans) < CAP and isinstance(_line_value(body, known), str):
            spans.append((start, start + len(body)))
            _walk(text, start, "", layout)
    if not spans:
        raise ValueError("no line is JSON")
    layout.rows(spans, "rows")
    return layout


def _json_value(text: str) -> Any:
    return _sorted(text)


def _jsonl_value(text: str, known: dict[str, Any]) -> Any:
    """``known`` keeps what lines say: versions of one file share nearly all of them."""
    return [_line_value(line, known) for line in map(str.strip, text.split("\n")) if line]


def _line_value(line: str, known: dict[str, Any]) -> Any:
    """Its canonical text, or ("broken", line)."""
    if line not in known:
        try:
            known[line] = _sorted(line)
        except (ValueError, RecursionError):
            known[line] = ("broken", line)
    return known[line]


def _sorted(text: str) -> str:
    """One text for each value, whatever the order of its keys."""
    return json.dumps(json.loads(text), sort_keys=True)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _walk(text: str, at: int, group: str, layout: Layout) -> int:
    """Enter the value that begins at ``at``; gives where it ends. ``text`` is known to parse."""
    if text[at] in "{[":
        return _container(text, at, group, layout)
    end = _DECODER.raw_decode(text, at)[1]
    layout.slot(at, end, group)
    return end


def _container(text: str, at: int, group: str, layout: Layout) -> int:
    is_object = text[at] == "{"
    spans: list[Span] = []
    at = _skip(text, at + 1)
    while text[at] not in "]}":
        start, inner = at, f"{group}[]"
        if is_object:
            key, at = _DECODER.raw_decode(text, at)
            inner = f"{group}.{key}" if group else key
            at = _skip(text, _skip(text, at) + 1)
        end = _walk(text, at, inner, layout)
        spans.append((start, end))
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    layout.rows(spans, group, fields=is_object)
    return at + 1
