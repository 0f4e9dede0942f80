"""Layout of CSV and TSV."""

from __future__ import annotations

import csv
import io
import re
from functools import partial

from facet_dagster.domain.variants.edits import shifted
from facet_dagster.domain.variants.layout import CAP, Layout, Span


def delimiter_of(text: str, suffix: str) -> str:
    first = text.lstrip().partition("\n")[0]
    return "\t" if suffix == "tsv" else max(",;|\t", key=first.count)


def csv_rows(text: str, delimiter: str) -> list[list[str]]:
    """Rows that hold something. Raises csv.Error."""
    return [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True) if any(row)]


def csv_layout(text: str, suffix: str) -> Layout:
    """A first row without numbers, repetitions or gaps is a header. Raises ValueError or csv.Error."""
    delimiter = delimiter_of(text, suffix)
    rows = _spans(text, delimiter)
    if not rows:
        raise ValueError("no rows")
    csv_rows(text, delimiter)
    names = [text[start:end].strip('"') for start, end in rows[0]]
    header = all(names) and len(set(names)) == len(names) and not any(map(shifted, names)) and len(rows) > 1
    layout = Layout("csv", partial(csv_rows, delimiter=delimiter), repeats=True)
    for row in rows[1:] if header else rows:
        for index, (start, end) in enumerate(row):
            layout.slot(start, end, names[index] if header and index < len(names) else f"column {index + 1}")
    layout.rows([(row[0][0], row[-1][1]) for row in rows], "rows", skip=int(header))
    if len(names) > 1 and header and len({len(row) for row in rows}) == 1 and len(rows) * len(names) < CAP:
        layout.columns = [(name, [_cut(row, index) for row in rows]) for index, name in enumerate(names)]
    return layout


def _cut(row: list[Span], index: int) -> Span:
    return (row[index][0], row[index + 1][0]) if index + 1 < len(row) else (row[index - 1][1], row[index][1])


def _spans(text: str, delimiter: str) -> list[list[Span]]:
    """Cells by offset, row by row, without blank rows."""
    cell = re.compile(rf'"(?:[^"]|"")*+"|(?!")[^{re.escape(delimiter)}\r\n]*')
    rows: list[list[Span]] = []
    row: list[Span] = []
    at = total = 0
    while at < len(text) and total < CAP:
        found = cell.match(text, at)
        if not found:
            raise ValueError("a quoted cell does not end")
        end = found.end()
        row.append((at, end))
        total += 1
        if text[end : end + 1] == delimiter:
            at = end + 1
            if at < len(text):
                continue
            row.append((at, at))
            end = at
        rows += [row] if any(b > a for a, b in row) else []
        row, at = [], _next_line(text, end)
    return rows


def _next_line(text: str, at: int) -> int:
    if text[at : at + 2] == "\r\n":
        return at + 2
    if at < len(text) and text[at] not in "\r\n":
        raise ValueError("a cell goes on after its closing quote")
    return at + 1
