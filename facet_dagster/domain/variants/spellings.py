"""Other spellings of one text: same content for whoever reads its format."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from typing import Any

from facet_dagster.domain.variants.csv_layout import csv_rows, delimiter_of
from facet_dagster.domain.variants.layout import BAD, Layout

# A carriage return or a blank at the end of a line is a part of these programs.
_PROGRAMS = frozenset(
    ("sh", "bash", "py", "pl", "rb", "js", "ts", "awk", "sed", "sql", "mk", "c", "h", "go", "rs", "java")
)

Spelling = tuple[str, str, str]  # kind, what, the whole new text


def spellings(text: str, suffix: str, layout: Layout) -> Iterator[Spelling]:
    """Those of which the format says that they are equal to ``text``."""
    said = layout.value(text)
    for kind, what, new in _candidates(text, suffix, layout.sort):
        try:
            equal = new != text and layout.value(new) == said
        except BAD:
            equal = False
        if equal:
            yield kind, what, new


def _candidates(text: str, suffix: str, sort: str) -> Iterator[Spelling]:
    try:
        if sort == "json":
            yield from _json(text)
        elif sort == "jsonl":
            yield from _jsonl(text)
        elif sort == "csv":
            yield "quoted", "every cell in quotes", _quoted(text, suffix)
    except BAD:
        pass
    if suffix not in _PROGRAMS and not text.startswith("#!"):
        yield from _line_ends(text, sort)
    yield _final_newline(text)


def _json(text: str) -> Iterator[Spelling]:
    end = "\n" if text.endswith("\n") else ""
    value = json.loads(text)
    keep = text.isascii()
    if "\n" in text.strip():
        yield "indent", "written on one line", json.dumps(value, ensure_ascii=keep, separators=(",", ":")) + end
    else:
        yield "indent", "indented by two spaces", json.dumps(value, ensure_ascii=keep, indent=2) + end
    yield "sort_keys", "keys sorted", json.dumps(value, ensure_ascii=keep, sort_keys=True, indent=_indent(text)) + end
    yield "escape", "characters escaped", _escaped(text)


def _jsonl(text: str) -> Iterator[Spelling]:
    lines = [json.loads(line) for line in text.split("\n") if line.strip()]
    spaced = [json.dumps(line, ensure_ascii=text.isascii()) for line in lines]
    if "\n".join(spaced) == text.rstrip():
        spaced = [json.dumps(line, ensure_ascii=text.isascii(), separators=(",", ":")) for line in lines]
    yield "spaces", "other spaces between the tokens", "\n".join(spaced) + ("\n" if text.endswith("\n") else "")
    yield "escape", "characters escaped", _escaped(text)


def _indent(text: str) -> int | None:
    found = re.search(r"\n( +)\S", text)
    return min(len(found[1]), 8) if found else None


def _escaped(text: str) -> str:
    """Characters outside ASCII occur in strings alone, so each can be escaped where it stands."""
    return re.sub(r"[^\x00-\x7f]", lambda found: json.dumps(found.group())[1:-1], text)


def _quoted(text: str, suffix: str) -> str:
    delimiter = delimiter_of(text, suffix)
    out = io.StringIO(newline="")
    end = "\r\n" if "\r\n" in text else "\n"
    rows: list[list[Any]] = [*csv_rows(text, delimiter)]
    csv.writer(out, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator=end).writerows(rows)
    new = out.getvalue()
    return new if text.endswith("\n") else new.removesuffix(end)


def _line_ends(text: str, sort: str) -> Iterator[Spelling]:
    if "\r\n" in text:
        yield "lf", "lines end with LF", text.replace("\r\n", "\n")
    elif "\n" in text:
        yield "crlf", "lines end with CRLF", text.replace("\n", "\r\n")
    if sort == "lines":
        yield "blanks", "a blank at the end of each line", re.sub(r"(?<=\S)(?=\r?\n)", " ", text)


def _final_newline(text: str) -> Spelling:
    if text.endswith("\n"):
        return "final_newline", "no line end at the end", text.removesuffix("\n").removesuffix("\r")
    return "final_newline", "a line end at the end", text + ("\r\n" if "\r\n" in text else "\n")
