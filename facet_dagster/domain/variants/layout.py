"""Where the values and rows of a text stand, so that one can be altered and every other byte stays.

A layout belongs to one text; offsets are characters. All of it is bounded: ``CAP`` values and rows are enough.
"""

from __future__ import annotations

import csv
import re
import sqlite3
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from xml.etree.ElementTree import ParseError

import yaml

CAP = 50_000
Span = tuple[int, int]
# What parsers raise on hostile bytes; nothing of it leaves the functions over files.
BAD = (
    ValueError,
    ArithmeticError,
    LookupError,
    RecursionError,
    TypeError,
    AttributeError,
    OSError,
    EOFError,
    MemoryError,
    csv.Error,
    zlib.error,
    sqlite3.Error,
    yaml.YAMLError,
    ParseError,
)


class Slot(NamedTuple):
    """One value. ``group`` names its column, field or list: values of one group are alike."""

    start: int
    end: int
    group: str


class Part(NamedTuple):
    """One row, or one field of an object. Taking out ``cut`` removes it with its separator.

    ``group`` names the list for people; parts of one list share ``box``.
    """

    start: int
    end: int
    cut: Span
    group: str
    box: int


@dataclass
class Layout:
    """``value`` gives what a text of this format says, for comparison, and raises one of BAD when it is broken.

    ``parts`` are rows and items, ``fields`` those of objects; ``columns`` are (name, cuts) that remove a whole one;
    ``null`` is how "no value" is written.
    ``repeats``: whether a repeated row is another content. ``sort`` tells which format it is.
    """

    sort: str
    value: Callable[[str], Any]
    null: str = ""
    repeats: bool = False
    slots: list[Slot] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    fields: list[Part] = field(default_factory=list)
    columns: list[tuple[str, list[Span]]] = field(default_factory=list)

    def slot(self, start: int, end: int, group: str) -> None:
        if len(self.slots) < CAP and end > start:
            self.slots.append(Slot(start, end, group[:120]))

    def rows(
        self,
        spans: Sequence[Span],
        group: str,
        *,
        fields: bool = False,
        skip: int = 0,
        cuts: Sequence[Span] | None = None,
    ) -> None:
        """Add parts that follow each other; the first ``skip`` (a header) stay out.

        Without ``cuts`` a part goes with all that stands between it and the next one.
        """
        parts = self.fields if fields else self.parts
        for index, (start, end) in enumerate(spans[: CAP - len(parts)]):
            if index < skip:
                continue
            cut = cuts[index] if cuts else _cut(spans, index)
            parts.append(Part(start, end, cut, group[:120], spans[0][0]))


def _cut(spans: Sequence[Span], index: int) -> Span:
    start, end = spans[index]
    if index + 1 < len(spans):
        return start, spans[index + 1][0]
    return (spans[index - 1][1] if index else start), end


def lines_of(text: str) -> list[tuple[int, str]]:
    """(offset, line without its end); unlike ``splitlines`` at LF and CRLF alone."""
    found, at = [], 0
    for line in text.split("\n"):
        found.append((at, line.removesuffix("\r")))
        at += len(line) + 1
    return found if found[-1][1] else found[:-1]


def same_kind(value: Any) -> Any:
    """A parsed value in a form in which equality is what a reader means: no order of keys, True is not 1."""
    if isinstance(value, dict):
        return ("object", sorted(((repr(key), same_kind(item)) for key, item in value.items()), key=lambda p: p[0]))
    if isinstance(value, list | tuple):
        return ("list", [same_kind(item) for item in value])
    if isinstance(value, bool) or value is None:
        return ("constant", repr(value))
    return value if isinstance(value, int | str) else repr(value)


_WORD = re.compile(r"[A-Za-z\u00c0-\u024f'’-]+")


def is_prose(text: str) -> bool:
    """Whether it reads like a sentence: many words, nearly all of letters alone."""
    words = text[:2_000].strip().strip("\"'").split()
    plain = sum(bool(_WORD.fullmatch(word.strip(".,;:!?()\"'"))) for word in words)
    if len(words) < 4 or plain < 0.7 * len(words):
        return False
    return len(words) > 6 or words[-1][-1] in ".!?"
