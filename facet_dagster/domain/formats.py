"""What is inside a file: encoding, line ends, columns, members and tables, all bounded.

The bytes come from generated images and are hostile: nothing is executed or written to disk, and
decompression stops at ``OPEN_LIMIT`` bytes.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import sqlite3
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Literal

OPEN_LIMIT = 4 * 1024 * 1024
DISTINCT = 12
COLUMNS = 24
MEMBERS = 40
TABLES = 12
ROWS = 3
CELL = 60
_STEPS = 2_000_000
_SQLITE = b"SQLite format 3\0"
_OPENERS: dict[bytes, tuple[str, Any]] = {
    b"\x1f\x8b": ("gzip", gzip.open),
    b"BZh": ("bzip2", bz2.open),
    b"\xfd7zXZ\x00": ("xz", lzma.open),
}
_DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError, ValueError)

Newline = Literal["lf", "crlf", "mixed", "none"]


def decode(data: bytes) -> tuple[str, str | None]:
    """(encoding, text): ascii, utf-8, utf-8-sig, utf-16, cp1252, or ("binary", None)."""
    if data.startswith(b"\xef\xbb\xbf"):
        return _first(data, "utf-8-sig")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _first(data, "utf-16")
    return _first(data, "ascii", "utf-8", "cp1252")


def _first(data: bytes, *encodings: str) -> tuple[str, str | None]:
    for encoding in encodings:
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        if not any(ord(c) < 32 and c not in "\t\n\r\f\x1b\x1e\x1f" for c in text):
            return encoding, text
    return "binary", None


def newline_of(text: str) -> Newline:
    crlf, lf = text.count("\r\n"), text.count("\n")
    if not lf:
        return "none"
    return "lf" if not crlf else "crlf" if crlf == lf else "mixed"


def count_lines(text: str) -> int:
    """Lines as people count them: a last line without line end counts."""
    return text.count("\n") + (0 if text.endswith("\n") or not text else 1)


def opened(data: bytes) -> tuple[str, bytes] | None:
    """(format, content) of a gzip, bzip2 or xz file, at most OPEN_LIMIT bytes of it; None for others."""
    for magic, (name, opener) in _OPENERS.items():
        if data.startswith(magic):
            try:
                with opener(io.BytesIO(data)) as stream:
                    return name, stream.read(OPEN_LIMIT)
            except _DAMAGED:
                return None
    return None


def inner_facts(path: str, data: bytes) -> dict[str, Any]:
    """Facts about a binary file that is an archive or a database; empty when it is neither."""
    unpacked = opened(data)
    if unpacked:
        return _compressed_facts(path, *unpacked)
    if data.startswith(_SQLITE):
        return _sqlite_facts(data)
    try:
        if zipfile.is_zipfile(io.BytesIO(data)):
            return _members("zip", [(i.filename, i.file_size) for i in zipfile.ZipFile(io.BytesIO(data)).infolist()])
        if data[257:262] == b"ustar":
            return _tar_facts(data)
    except _DAMAGED:
        return {"format": "damaged archive"}
    return {}


def _tar_facts(data: bytes) -> dict[str, Any]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
        return _members("tar", [(info.name, info.size) for info in tar])


def _members(kind: str, members: Sequence[tuple[str, int]]) -> dict[str, Any]:
    listed = [{"path": name[:200], "bytes": size} for name, size in members[:MEMBERS]]
    return {"format": kind, "members": listed, "member_count": len(members)}


def _compressed_facts(path: str, kind: str, content: bytes) -> dict[str, Any]:
    if content[257:262] == b"ustar":
        return {**_tar_facts(content), "format": f"tar in {kind}"}
    encoding, text = decode(content)
    if text is None:
        return {"format": kind, "encoding": encoding, **inner_facts(path.rpartition(".")[0], content)}
    facts: dict[str, Any] = {
        "format": kind,
        "encoding": encoding,
        "newline": newline_of(text),
        "final_newline": text.endswith("\n"),
        "lines": count_lines(text),
        "head": text[:1_200],
    }
    if len(text) > 1_200:
        facts["tail"] = text[max(1_200, len(text) - 600) :]
    inner = text_facts(path.rpartition(".")[0], text)
    return {**facts, **inner, "format": f"{inner['format']} in {kind}" if inner else kind}


def searchable(data: bytes) -> Iterable[str]:
    """Every text in which a mark may stand: the file itself, or what it holds when it is packed."""
    unpacked = opened(data)
    if unpacked:
        yield from searchable(unpacked[1])
        return
    yield from _member_texts(data)
    encoding, text = decode(data)
    yield data.decode("utf-8", "replace") if encoding == "binary" else text or ""


def _member_texts(data: bytes) -> Iterable[str]:
    left = OPEN_LIMIT
    try:
        if not data.startswith(b"PK"):
            return
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for info in archive.infolist()[:MEMBERS]:
                with archive.open(info) as stream:
                    content = stream.read(left)
                left -= len(content)
                yield decode(content)[1] or ""
    except (*_DAMAGED, RuntimeError, NotImplementedError):
        return


def _sqlite_facts(data: bytes) -> dict[str, Any]:
    if len(data) > OPEN_LIMIT:
        return {"format": "sqlite", "note": "too large to be opened"}
    connection = sqlite3.connect(":memory:")
    try:
        # A database left in WAL mode (bytes 18 and 19) cannot be opened from memory.
        connection.deserialize(data[:18] + b"\x01\x01" + data[20:])
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.set_progress_handler(lambda: 1, _STEPS)
        return {"format": "sqlite", "tables": _tables(connection)}
    except sqlite3.Error as error:
        return {"format": "sqlite", "note": f"cannot be read: {error}"}
    finally:
        connection.close()


def _tables(connection: sqlite3.Connection) -> list[dict[str, Any]]:
    found = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    return [_table(connection, name, sql or "") for name, sql in found[:TABLES]]


def _table(connection: sqlite3.Connection, name: str, sql: str) -> dict[str, Any]:
    quoted = '"' + name.replace('"', '""') + '"'
    count = connection.execute(f"SELECT count(*) FROM {quoted}").fetchone()[0]  # noqa: S608 - quoted identifier
    first = connection.execute(f"SELECT * FROM {quoted} LIMIT {ROWS}").fetchall()  # noqa: S608
    return {"name": name, "sql": sql[:800], "rows": count, "first": [[_cell(v) for v in row] for row in first]}


def text_facts(path: str, text: str) -> dict[str, Any]:
    """Columns of CSV, TSV and JSON Lines, top-level keys of JSON; empty for other texts."""
    suffix = path.rpartition(".")[2].lower()
    if suffix in ("csv", "tsv"):
        return _csv_facts(text, suffix)
    if suffix in ("jsonl", "ndjson"):
        return _jsonl_facts(text)
    return _json_facts(text) if suffix == "json" else {}


def _csv_facts(text: str, suffix: str) -> dict[str, Any]:
    first = text.partition("\n")[0]
    delimiter = "\t" if suffix == "tsv" else max(",;|\t", key=first.count)
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
    except csv.Error as error:
        return {"format": suffix, "note": f"cannot be parsed: {error}"}
    if not rows:
        return {}
    header, body = rows[0], rows[1:]
    columns = {name: [row[i] for row in body if i < len(row)] for i, name in list(enumerate(header))[:COLUMNS]}
    odd = sum(len(row) != len(header) for row in body)
    facts = {"format": suffix, "delimiter": delimiter, "header": header[:COLUMNS], "data_rows": len(body)}
    return {**facts, "rows_of_other_width": odd, "columns": {k: _column(v) for k, v in columns.items()}}


def _jsonl_facts(text: str) -> dict[str, Any]:
    columns: dict[str, list[Any]] = {}
    bad = records = 0
    for line in filter(str.strip, text.split("\n")):
        value = _parsed(line)
        if not isinstance(value, dict):
            bad += 1
            continue
        records += 1
        for key, item in value.items():
            columns.setdefault(key, []).append(item)
    kept = {key: _column(columns[key]) for key in list(columns)[:COLUMNS]}
    return {"format": "jsonl", "records": records, "lines_that_are_no_object": bad, "columns": kept}


def _json_facts(text: str) -> dict[str, Any]:
    value = _parsed(text)
    if isinstance(value, dict):
        return {"format": "json", "keys": list(value)[:COLUMNS]}
    if isinstance(value, list):
        keys = list(value[0])[:COLUMNS] if value and isinstance(value[0], dict) else []
        return {"format": "json", "length": len(value), "keys_of_first": keys}
    return {"format": "json", "note": "does not parse"} if value is None else {"format": "json"}


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _column(values: Sequence[Any]) -> dict[str, Any]:
    """Distinct values when they are few, else the range of numbers, else a count and an example."""
    cells = [_cell(value) for value in values]
    filled = [cell for cell in cells if cell not in ("", None)]
    facts: dict[str, Any] = {"empty": len(cells) - len(filled)} if len(filled) < len(cells) else {}
    distinct = {repr(cell): cell for cell in filled}
    if len(distinct) <= DISTINCT:
        return {**facts, "values": [distinct[key] for key in sorted(distinct)]}
    numbers = [number for number in map(_number, filled) if number is not None]
    if len(numbers) == len(filled):
        return {**facts, "distinct": len(distinct), "min": min(numbers), "max": max(numbers)}
    return {**facts, "distinct": len(distinct), "least": min(map(str, filled)), "greatest": max(map(str, filled))}


def _cell(value: Any) -> Any:
    if isinstance(value, int | float) or value is None:
        return value
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= CELL else text[:CELL] + "…"


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
