"""An SFT export as the trainer reads it: whole, by the ``datasets`` library, with the marks of what is trained on."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from datasets import Dataset, load_dataset


class NotUsableError(Exception):
    """The export, tokenizer or template cannot be used; the text says what to do."""


def read_export(folder: Path, cache: Path) -> tuple[Dataset, dict[str, Any]]:
    """The rows of the split ``train`` and the manifest. Raises NotUsableError."""
    manifest = _manifest(folder)
    for name, expected in (manifest.get("files") or {}).items():
        path = folder / name
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != expected:
            raise NotUsableError(f"{path} is missing or is not what the manifest says: export it again")
    try:
        rows = load_dataset(str(folder), split="train", cache_dir=str(cache))
    except Exception as error:
        raise NotUsableError(f"The datasets library cannot load {folder}: {error}") from error
    lacking = {"messages", "train"} - set(rows.column_names)
    if lacking or not len(rows):
        what = f"no column {', '.join(sorted(lacking))}" if lacking else "no row"
        raise NotUsableError(f"{folder} has {what}: `facet export sft` writes what can be trained on")
    return rows, manifest


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise NotUsableError(f"{folder} is no export: its manifest.json cannot be read ({error})") from error
    return found if isinstance(found, dict) else {}
