"""Skills from tables that others exported: one skill a row, Parquet or JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from facet_dagster.domain.skill import PackageFacts
from facet_dagster.errors import ConfigError, SourceError
from facet_dagster.stages.collect.packages import CAP, Collected, Unread, line, raw_skill

BATCH = 2_000
LINE_CAP = 4 * CAP
OPTIONAL = ("raw", "text", "license", "license_evidence", "commit", "n_files")
BROKEN = (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException)
FACTS = ("scripts", "references", "assets", "tests")


def collect_parquet(path: Path, *, unread: Unread | None = None) -> Iterator[Collected]:  # noqa: ARG001
    """Every row of a table with the columns ``repo``, ``path`` and ``raw`` or ``text``, read in batches.

    ``license``, ``license_evidence``, ``commit``, ``n_files``, ``has_scripts``, ``has_references``, ``has_assets`` and
    ``has_tests`` are used where present. Raises ConfigError when the file is no such table, SourceError when it
    cannot be read to its end.
    """
    try:
        frame = pl.scan_parquet(path, glob=False)
        columns = frame.collect_schema().names()
        rows = int(frame.select(pl.len()).collect().item())
    except BROKEN as error:
        raise ConfigError(f"{path} cannot be read as Parquet: {error}") from error
    _refuse(path, set(columns))
    if not rows:
        raise ConfigError(f"{path} has no rows; give a table with one skill a row.")
    return _rows(path, frame, columns, rows)


def _refuse(path: Path, columns: set[str]) -> None:
    missing = [name for name in ("repo", "path") if name not in columns]
    if not {"raw", "text"} & columns:
        missing.append("text (or raw)")
    if missing:
        raise ConfigError(f"{path} lacks the columns {', '.join(missing)}; they are needed to name and read a skill.")


def _rows(path: Path, frame: pl.LazyFrame, columns: list[str], rows: int) -> Iterator[Collected]:
    optional = (*OPTIONAL, *(f"has_{fact}" for fact in FACTS))
    wanted = ["repo", "path", *(name for name in optional if name in columns)]
    before = _state(path)
    for start in range(0, rows, BATCH):
        if _state(path) != before:  # polars would end in a panic
            raise SourceError(f"{path} was changed while it was read, at row {start + 1}: run again for the rest.")
        try:
            batch = frame.select(wanted).slice(start, BATCH).collect()
        except BROKEN as error:
            raise SourceError(f"{path} cannot be read from row {start + 1} on: {error}") from error
        for row in batch.iter_rows(named=True):
            yield _from_row("parquet", row)


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def collect_jsonl(path: Path, *, unread: Unread | None = None) -> Iterator[Collected]:
    """As ``collect_parquet``, from a file with one JSON object a line; ``raw`` and ``text`` are texts there.

    A line that is no such object goes to ``unread``. Raises ConfigError when already the first line is none.
    """
    try:
        stream = path.open("rb")
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}).") from error
    numbered = _lines(stream, path)
    first = next(numbered, None)
    if first is None:
        raise ConfigError(f"{path} has no rows; give a file with one skill a line.")
    row, why = _object(first[1])
    if row is None:
        raise ConfigError(f"{path}: line {first[0]} {why}; give one JSON object a line, with repo, path and text.")
    _refuse(path, set(row))
    return _objects(row, numbered, unread)


def _objects(first: dict[str, Any], rest: Iterator[tuple[int, bytes]], unread: Unread | None) -> Iterator[Collected]:
    yield _from_row("jsonl", first)
    for number, data in rest:
        row, why = _object(data)
        if row is not None and not isinstance(row.get("raw", row.get("text")), str):
            row, why = None, "has no text"
        if row is not None:
            yield _from_row("jsonl", row)
        elif unread is None:
            raise ConfigError(f"Line {number} {why}: correct it or take it out.")
        else:
            unread(f"line {number}", why)


def _lines(stream: BinaryIO, path: Path) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of each line that is not blank; of one over 16 MiB only the beginning."""
    number = 0
    with stream:
        try:
            while data := stream.readline(LINE_CAP):
                number += 1
                more = data
                while len(more) == LINE_CAP and not more.endswith(b"\n"):
                    more = stream.readline(LINE_CAP)
                if data.strip():
                    yield number, data
        except OSError as error:
            text = f"{path} cannot be read from line {number + 1} on ({error.strerror}); the lines before it are kept."
            raise SourceError(text) from error


def _object(data: bytes) -> tuple[dict[str, Any] | None, str]:
    if len(data) >= LINE_CAP:
        return None, f"has more than {LINE_CAP:,} bytes"
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None, "is not JSON"
    return (value, "") if isinstance(value, dict) else (None, "is no JSON object")


def _from_row(kind: str, row: Mapping[str, Any]) -> Collected:
    content = row.get("raw")
    if content is None:
        content = row.get("text") or ""
    data = content if isinstance(content, bytes) else str(content).encode("utf-8", "surrogatepass")
    size = len(data)
    if size > CAP:
        data = b""
    repo, place = line(row.get("repo")), line(row.get("path"))
    parts = Path(place).parts
    named = line(row.get("license"))
    facts = {fact: (f"{fact}/",) for fact in FACTS if row.get(f"has_{fact}")}
    raw = raw_skill(
        kind,
        f"{repo}:{place}",
        data,
        size=size,
        owner=repo.partition("/")[0],
        slug=parts[-2] if len(parts) > 1 else repo.rpartition("/")[2],
        licence_hint=f"{line(row.get('license_evidence')).replace(':', ',') or 'table'}: {named}" if named else "",
        facts=PackageFacts(files=_count(row.get("n_files")), **facts),
        commit=line(row.get("commit")),
    )
    return raw, data


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 1
