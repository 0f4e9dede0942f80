"""Layouts of JSON and of JSON Lines."""

from __future__ import annotations

import json
import re
from typing import Any

from facet_dagster.domain.variants.layout import Layout, same_kind

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
    layout = Layout("jsonl", _jsonl_value, null="null", repeats=True)
    spans = []
    at = 0
    for line in text.splitlines(keepends=True):
        body = line.strip()
        start = at + line.find(body)
        if body and _is_json(body):
            spans.append((start, start + len(body)))
            _walk(text, start, "", layout)
        at += len(line)
    if not spans:
        raise ValueError("no line is JSON")
    layout.rows(spans, "rows")
    return layout


def _json_value(text: str) -> Any:
    return same_kind(json.loads(text))


def _jsonl_value(text: str) -> Any:
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    return [same_kind(json.loads(line)) if _is_json(line) else ("broken", line) for line in lines]


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


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
    spans: list[tuple[int, int]] = []
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
