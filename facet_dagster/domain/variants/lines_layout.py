"""Layouts of texts that are taken as lines: settings, logs, lists, anything unknown, and Markdown."""

from __future__ import annotations

import configparser
import re
import tomllib
from collections.abc import Callable
from typing import Any

from facet_dagster.domain.variants.layout import BAD, Layout, is_prose, same_kind

COMMENTS = ("#", "//", ";", "--", "%", "<!--", "/*", "*/", '"""', "'''")
_PAIR = re.compile(
    r"\s*(?P<key>[\w.\-\"' /]{1,80}?)\s*[=:]\s+(?P<value>\S.*)|\s*(?P<name>[\w.\-]{1,80})=(?P<text>\S.*)"
)
_SECTION = re.compile(r"\s*\[.*\]\s*$")
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,4}[.)])\s+\S")
_RULE = re.compile(r"[\s|:\-]*")
_TOKEN = re.compile(r"[^\s,;]+")
_CELL = re.compile(r"\|([^|]*)")


def lines_layout(text: str, suffix: str) -> Layout:
    """Every line that is no comment, blank, heading or sentence is a row; its words are values."""
    layout = Layout("lines", _value_of(text, suffix))
    spans = []
    for start, line in _lines(text):
        if not line.strip() or line.lstrip().startswith(COMMENTS) or is_prose(line):
            continue
        if not _SECTION.match(line):
            spans.append((start, start + len(line)))
            _words(start, line, layout)
    _line_rows(text, spans, "lines", layout)
    return layout


def markdown_layout(text: str) -> Layout:
    """Rows of tables and items of lists; headings, sentences and code stay out."""
    layout = Layout("markdown", said_by_lines)
    items: list[tuple[int, int]] = []
    tables: list[list[tuple[int, str]]] = [[]]
    fenced = False
    for start, line in _lines(text):
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        if line.lstrip().startswith("|") and not fenced:
            tables[-1].append((start, line))
            continue
        tables += [[]] if tables[-1] else []
        if _ITEM.match(line) and not fenced:
            items.append((start, start + len(line)))
    for table in filter(None, tables):
        _table(text, table, layout)
    _line_rows(text, items, "list", layout)
    return layout


def said_by_lines(text: str) -> Any:
    """The lines that hold something, without blanks at their ends and with blanks around cell borders made one."""
    lines = (re.sub(r"[ \t]*\|[ \t]*", "|", line.rstrip()) for line in text.splitlines())
    return [line for line in lines if line]


def _value_of(text: str, suffix: str) -> Callable[[str], Any]:
    """The parser that the suffix promises, as long as ``text`` itself satisfies it."""
    parsers: dict[str, Callable[[str], Any]] = {"toml": _toml, "ini": _ini, "cfg": _ini}
    parser = parsers.get(suffix, said_by_lines)
    try:
        parser(text)
    except (*BAD, configparser.Error):
        return said_by_lines
    return parser


def _toml(text: str) -> Any:
    return same_kind(tomllib.loads(text.replace("\r\n", "\n")))


def _ini(text: str) -> Any:
    parser = configparser.RawConfigParser(allow_no_value=True)
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise ValueError(str(error)) from error
    return {name: dict(parser.items(name)) for name in ["DEFAULT", *parser.sections()]}


def _lines(text: str) -> list[tuple[int, str]]:
    """(offset, line without its end)."""
    found, at = [], 0
    for line in text.splitlines(keepends=True):
        found.append((at, line.rstrip("\r\n")))
        at += len(line)
    return found


def _words(start: int, line: str, layout: Layout) -> None:
    pair = _PAIR.fullmatch(line)
    group = "line"
    if pair:
        key, value = ("key", "value") if pair["key"] is not None else ("name", "text")
        group, start, line = pair[key], start + pair.start(value), pair[value]
    words = list(_TOKEN.finditer(line))
    for index, word in enumerate(words[:40]):
        name = group if pair and len(words) == 1 else f"{group}, word {index + 1} of {len(words)}"
        layout.slot(start + word.start(), start + word.end(), name)


def _table(text: str, table: list[tuple[int, str]], layout: Layout) -> None:
    ruled = len(table) > 1 and _RULE.fullmatch(table[1][1]) is not None
    names = [cell.strip() for _, cell in _cells(table[0][1])]
    body = [(start, line) for start, line in (table[2:] if ruled else table) if not _RULE.fullmatch(line)]
    for start, line in body:
        for index, (offset, cell) in enumerate(_cells(line)):
            inner = cell.strip()
            at = start + offset + cell.find(inner)
            layout.slot(at, at + len(inner), names[index] if ruled and index < len(names) else f"column {index + 1}")
    _line_rows(text, [(start, start + len(line)) for start, line in body], "table", layout)


def _cells(line: str) -> list[tuple[int, str]]:
    """(offset, text) of the cells of a table's row."""
    found = [(cell.start(1), cell[1]) for cell in _CELL.finditer(line.rstrip())]
    return found if found and found[-1][1].strip() else found[:-1]


def _line_rows(text: str, spans: list[tuple[int, int]], group: str, layout: Layout) -> None:
    """Like ``Layout.rows``, but what stands between the lines stays."""
    layout.rows(spans, group, cuts=[_line_cut(text, start, end) for start, end in spans])


def _line_cut(text: str, start: int, end: int) -> tuple[int, int]:
    rest = text[end : end + 2]
    if rest:
        return start, end + (2 if rest == "\r\n" else 1)
    before = start - (2 if text[max(start - 2, 0) : start] == "\r\n" else 1)
    return max(before, 0), end
