"""Layouts of texts that are taken as lines: settings, logs, lists, anything unknown, and Markdown."""

from __future__ import annotations

import configparser
import re
import tomllib
from collections.abc import Callable
from itertools import islice
from typing import Any

from facet_dagster.domain.variants.layout import BAD, Layout, is_prose, lines_of, same_kind

COMMENTS = ("#", "//", ";", "--", "%", "<!--", "/*", "*/", '"""', "'''")
_LONG = 2_000  # characters of a line that are looked at
_SETTINGS = 256 * 1024  # characters of a file of settings that is parsed
_KEY = re.compile(r"[\w.\-\"'/][\w.\-\"' /]{0,80}")
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,4}[.)])\s+\S")
_RULE = re.compile(r"[\s|:\-]*")
_WORD = re.compile(r"\S+")
_CUE = re.compile(r"\s*\d+\s*")
_CELL = re.compile(r"\|([^|]*)")


def lines_layout(text: str, suffix: str) -> Layout:
    """Every line that is no comment, blank, heading or sentence is a row; its words are values."""
    layout = Layout("lines", _value_of(text, suffix))
    spans = []
    for start, line in lines_of(text):
        if not line.strip() or line.lstrip().startswith(COMMENTS) or is_prose(line):
            continue
        if not _is_section(line) and not (suffix == "srt" and _CUE.fullmatch(line)):
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
    for start, line in lines_of(text):
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
    return [_squeezed(line) if line.lstrip().startswith("|") else line for line in _filled(text)]


def _filled(text: str) -> list[str]:
    return [line for line in (line.rstrip() for line in text.split("\n")) if line]


def _squeezed(line: str) -> str:
    return "|".join(cell.strip() for cell in line.split("|"))


def _is_section(line: str) -> bool:
    return line.strip().startswith("[") and line.strip().endswith("]")


def _value_of(text: str, suffix: str) -> Callable[[str], Any]:
    """The parser that the suffix promises, as long as ``text`` itself satisfies it."""
    parsers: dict[str, Callable[[str], Any]] = {"toml": _toml, "ini": _ini, "cfg": _ini}
    parser = parsers.get(suffix, said_by_lines)
    if len(text) > _SETTINGS or any(len(line) > _LONG for line in text.split("\n")):
        return said_by_lines
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


def _pair(line: str) -> tuple[str, int]:
    """(key, where its value begins) of ``key = value``, ``key: value`` and ``key=value``; ("", 0) of other lines."""
    found = _KEY.match(line, len(line) - len(line.lstrip()))
    if found and line[found.end() : found.end() + 1] in ("=", ":"):
        value = line[found.end() + 1 :]
        if value.strip() and (line[found.end()] == "=" or value[0].isspace()):
            return found.group().strip(), found.end() + 1
    return "", 0


def _words(start: int, line: str, layout: Layout) -> None:
    key, at = _pair(line)
    group, words = key or "line", list(_WORD.finditer(line[:_LONG], at))
    for index, word in enumerate(words[:40]):
        name = group if key and len(words) == 1 else f"{group}, word {index + 1} of {len(words)}"
        layout.slot(start + word.start(), start + word.start() + len(word.group().rstrip(",;")), name)


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
    found = [(cell.start(1), cell[1]) for cell in islice(_CELL.finditer(line.rstrip()), 500)]
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
