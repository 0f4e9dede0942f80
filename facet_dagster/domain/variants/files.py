"""From bytes to a format and back: encoding, byte order mark and compression are kept. Pure.

Nothing raises: bytes that no format explains have no alterations here.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import Any, TypeVar

from facet_dagster.domain.formats import OPEN_LIMIT, decode, opened
from facet_dagster.domain.variants.csv_layout import csv_layout
from facet_dagster.domain.variants.edits import Wish, edits
from facet_dagster.domain.variants.json_layout import json_layout, jsonl_layout
from facet_dagster.domain.variants.layout import BAD, Layout
from facet_dagster.domain.variants.lines_layout import lines_layout, markdown_layout
from facet_dagster.domain.variants.markup_layout import markup_layout
from facet_dagster.domain.variants.spellings import spellings
from facet_dagster.domain.variants.sqlite_file import MAGIC, database_edits, database_equivalents, said_by_database
from facet_dagster.domain.variants.yaml_layout import yaml_layout

WHOLE = 1024 * 1024  # bytes; of a larger text only the head is looked at
HEAD = 256 * 1024

Change = tuple[str, str, bytes]  # kind, what, the whole new file
Item = TypeVar("Item")


def altered(path: str, data: bytes, wish: Wish) -> Iterator[Change]:
    """Wrong versions, one a kind, most telling first."""
    return _until_broken(_altered(path, data, wish))


def respelled(path: str, data: bytes) -> Iterator[Change]:
    """Versions with the same content; none of a file that is too large."""
    return _until_broken(_respelled(path, data))


def says_same(path: str, one: bytes, other: bytes) -> bool:
    """Whether both have the same content, as far as their format is understood; else whether they are equal."""
    try:
        return one == other or (_said(path, one) == _said(path, other) and _said(path, one) is not None)
    except BAD:
        return False


def layout_of(path: str, text: str) -> Layout:
    """The layout of the format that the suffix, or else the text, promises; lines when it is broken."""
    suffix = suffix_of(path)
    try:
        return _promised(suffix, text)
    except BAD:
        return lines_layout(text, suffix)


def suffix_of(path: str) -> str:
    """Lower case, without dot; that of the inner file when ``path`` is one of gzip."""
    name = path.rpartition("/")[2].lower().removesuffix(".gz")
    return name.rpartition(".")[2] if "." in name else ""


def _promised(suffix: str, text: str) -> Layout:
    start = text.lstrip()[:5]
    if suffix in ("jsonl", "ndjson"):
        return jsonl_layout(text)
    if suffix in ("csv", "tsv"):
        return csv_layout(text, suffix)
    if suffix in ("yaml", "yml"):
        return yaml_layout(text)
    if suffix in ("md", "markdown"):
        return markdown_layout(text)
    if suffix in ("xml", "svg", "xhtml", "html", "htm", "rss", "atom") or start.startswith("<?xml"):
        return markup_layout(text, suffix)
    if suffix in ("json", "geojson", "ipynb") or start.startswith(("{", "[")):
        return json_layout(text)
    return lines_layout(text, suffix)


def _altered(path: str, data: bytes, wish: Wish) -> Iterator[Change]:
    if data.startswith(MAGIC):
        if len(data) <= WHOLE:
            yield from database_edits(data, wish)
        return
    inner = _unpacked(data)
    if inner is not None:
        for kind, what, new in _altered(path, inner, wish):
            yield kind, what, gzip.compress(new, mtime=0)
        return
    body, rest = _head(path, data)
    encoding, text = _text(body)
    for kind, what, new_text in edits(text, layout_of(path, text), wish):
        yield kind, what, _bytes(new_text, encoding, body) + rest


def _respelled(path: str, data: bytes) -> Iterator[Change]:
    if len(data) > WHOLE or not data.strip():
        return
    if data.startswith(MAGIC):
        said = said_by_database(data)
        yield from (c for c in database_equivalents(data) if c[2] != data and said_by_database(c[2]) == said)
        return
    inner = _unpacked(data)
    if inner is not None:
        for kind, what, new in _respelled(path, inner):
            yield kind, what, gzip.compress(new, mtime=0)
        stored = gzip.compress(inner, compresslevel=1, mtime=0)
        if stored != data:
            yield "recompressed", "compressed anew", stored
        return
    encoding, text = _text(data)
    for kind, what, new_text in spellings(text, suffix_of(path), layout_of(path, text)):
        yield kind, what, _bytes(new_text, encoding, data)


def _said(path: str, data: bytes) -> Any:
    """None when nothing can be said about it. Raises one of BAD."""
    if len(data) > WHOLE:
        return None
    if data.startswith(MAGIC):
        return said_by_database(data)
    inner = _unpacked(data)
    if inner is not None:
        return _said(path, inner)
    text = _text(data)[1]
    layout = layout_of(path, text)
    return layout.sort, layout.value(text)


def _unpacked(data: bytes) -> bytes | None:
    """What a gzip file holds; None for other files. Raises ValueError for what is damaged, too large, or a tar."""
    if not data.startswith(b"\x1f\x8b"):
        return None
    found = opened(data)
    if found is None or len(found[1]) >= OPEN_LIMIT or found[1][257:262] == b"ustar" or found[1][:2] == b"\x1f\x8b":
        raise ValueError("no gzip of one small file")
    return found[1]


def _head(path: str, data: bytes) -> tuple[bytes, bytes]:
    """(what is looked at, the rest). Raises ValueError for a large file that is no sequence of lines."""
    if len(data) <= WHOLE:
        return data, b""
    end = data.rfind(b"\n", 0, HEAD) + 1
    lines = suffix_of(path) not in ("json", "yaml", "yml", "xml", "html", "htm") and data[:1] not in b"{[<"
    if not end or not (lines or suffix_of(path) in ("jsonl", "ndjson")):
        raise ValueError("too large")
    return data[:end], data[end:]


def _text(data: bytes) -> tuple[str, str]:
    """(encoding, text). Raises ValueError when it is no text, or would come back as other bytes."""
    encoding, text = decode(data)
    if text is None or _bytes(text, encoding, data) != data:
        raise ValueError("no text")
    return encoding, text


def _bytes(text: str, encoding: str, like: bytes) -> bytes:
    if encoding == "utf-16":
        big = like.startswith(b"\xfe\xff")
        return (b"\xfe\xff" if big else b"\xff\xfe") + text.encode("utf-16-be" if big else "utf-16-le")
    return text.encode("utf-8" if encoding == "ascii" else encoding)


def _until_broken(items: Iterator[Item]) -> Iterator[Item]:
    try:
        yield from items
    except BAD:
        return
