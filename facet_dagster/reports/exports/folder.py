"""The files of an export: rows as JSONL and Parquet for each side, their schema, the manifest, the card, the sums."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import BaseModel

from facet_dagster.domain.dataset import Manifest, Side
from facet_dagster.domain.ids import digest
from facet_dagster.reports.exports.aside import MANIFEST
from facet_dagster.reports.exports.card import card

SIDES: tuple[Side, ...] = ("train", "held_out")
SUMS = "SHA256SUMS"
Row = Mapping[str, Any]


def data_name(side: Side, ending: str) -> str:
    """Where the rows of one side lie: names that Hugging Face's loader knows."""
    return f"data/{side}-00000-of-00001.{ending}"


def write_rows(part: Path, rows: Sequence[Row], sides: Mapping[str, Side], model: type[BaseModel]) -> dict[str, str]:
    """Write ``rows`` below ``part`` and give each file's sha256. ``sides`` is by the rows' task.

    A row that its own schema refuses is a bug: pydantic's ValidationError.
    """
    for row in rows:
        model.model_validate(row)
    (part / "data").mkdir()
    table = pl.DataFrame(list(rows), infer_schema_length=None)
    names = []
    for side in SIDES:
        mine = [sides[str(row["task"])] == side for row in rows]
        if not any(mine):
            continue
        text = "".join(_line(row) for row, is_mine in zip(rows, mine, strict=True) if is_mine)
        (part / data_name(side, "jsonl")).write_text(text, encoding="utf-8")
        table.filter(pl.Series(mine)).write_parquet(part / data_name(side, "parquet"))
        names += [data_name(side, "jsonl"), data_name(side, "parquet")]
    return {name: digest((part / name).read_bytes()) for name in names}


def _line(row: Row) -> str:
    return json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n"


def finish(part: Path, manifest: Manifest, model: type[BaseModel]) -> None:
    """Write what describes the export; last of all the sums of all its files, which `sha256sum -c` checks."""
    (part / "schema").mkdir()
    for name, of in (("row", model), ("manifest", Manifest)):
        _write_json(part / "schema" / f"{name}.json", of.model_json_schema(by_alias=True))
    _write_json(part / MANIFEST, manifest.model_dump(mode="json"))
    (part / "README.md").write_text(card(manifest), encoding="utf-8")
    paths = sorted(path for path in part.rglob("*") if path.is_file())
    sums = "".join(f"{digest(path.read_bytes())}  {path.relative_to(part).as_posix()}\n" for path in paths)
    (part / SUMS).write_text(sums, encoding="utf-8")


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True) + "\n", encoding="utf-8")
