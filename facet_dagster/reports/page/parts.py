"""What a page is made of: sections with tables, pictures and notes. All of it is text until a template escapes it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

from facet_dagster.reports.statistics import Rate

CELL = 300  # characters that a cell shows
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


@dataclass(frozen=True)
class Table:
    """``rows`` of texts under ``columns``; columns from the second on stand to the right unless named in ``texts``."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    texts: frozenset[int] = frozenset()

    def right(self, place: int) -> bool:
        return place > 0 and place not in self.texts


@dataclass(frozen=True)
class Picture:
    """An image as a data URI; ``alt`` says in words what it shows."""

    title: str
    uri: str
    alt: str


@dataclass(frozen=True)
class Note:
    """A sentence or two below what they are about."""

    text: str


Part = Table | Picture | Note


@dataclass(frozen=True)
class Section:
    """One report. ``source`` names the place in the paper, ``ours`` and ``paper`` how either's numbers were taken.

    ``missing`` says which command makes the data where there are none; ``parts`` may then hold the paper's alone.
    """

    ident: str
    title: str
    source: str
    ours: str
    paper: str = ""
    parts: tuple[Part, ...] = ()
    missing: str = ""
    tables: tuple[Table, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", tuple(part for part in self.parts if isinstance(part, Table)))


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, texts: Iterable[int] = ()) -> Table:
    """A table of anything; None is an empty cell, numbers get their separators."""
    return Table(title, tuple(columns), tuple(tuple(map(cell, row)) for row in rows), frozenset(texts))


def cell(value: object) -> str:
    """A value as a reader wants to see it, at most CELL characters of it, without what hides or turns text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}"
    text = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(value))
    return text if len(text) <= CELL else text[: CELL - 1] + "…"


def percent(share: float | None, digits: int = 1) -> str:
    return "" if share is None else f"{100 * share:.{digits}f} %"


def rate_text(found: Rate) -> str:
    """``3/7 = 42.9 % (15.8-75.0)``."""
    if not found.of:
        return "-"
    text = f"{found.count:,}/{found.of:,}"
    if found.rate is None or found.low is None or found.high is None:
        return text
    return f"{text} = {percent(found.rate)} ({100 * found.low:.1f}-{100 * found.high:.1f})"


def mean(numbers: Sequence[float]) -> float | None:
    return sum(numbers) / len(numbers) if numbers else None


def markdown(found: Table, most: int = 40) -> str:
    """A table as Markdown in which no text is markup; at most so many rows."""
    lines = [
        f"**{_plain(found.title)}**",
        "",
        _row(found.columns),
        _row("---:" if found.right(n) else "---" for n in _places(found)),
    ]
    lines += [_row(map(_plain, row)) for row in found.rows[:most]]
    if len(found.rows) > most:
        lines.append(f"\n{len(found.rows) - most} more rows stand in the page.")
    return "\n".join(lines)


def _places(found: Table) -> range:
    return range(len(found.columns))


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    return re.sub(r"([\\`*_\[\]|~#!])", r"\\\1", escape(" ".join(text.split()), quote=False))
