"""Ids are hashes of content, never positions or names."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

BUCKETS = 256

# Facts that differ between machines although the work is the same. They are shown to the model and
# kept in artifacts, and left out of every canonical digest, so that a tape replays elsewhere.
VOLATILE = frozenset(
    {
        "base_image",
        "captured_at",
        "gid",
        "image_id",
        "log_tail",
        "mtime",
        "package_versions",
        "seconds",
        "sha256",
        "size",
        "snapshot_date",
        "tool_versions",
        "uid",
    }
)


def to_json(value: Any) -> str:
    """Canonical JSON: sorted keys, no blanks, UTF-8 text."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} has no JSON form")


def digest(value: Any) -> str:
    """SHA-256 (64 hex digits) of ``value``: bytes as they are, everything else as canonical JSON."""
    data = value if isinstance(value, bytes) else to_json(value).encode()
    return hashlib.sha256(data).hexdigest()


def canonical(value: Any) -> Any:
    """``value`` as plain JSON data without the VOLATILE keys, at every depth."""
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {str(k): canonical(v) for k, v in value.items() if k not in VOLATILE}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [canonical(v) for v in value]
    return value


def bucket_of(skill_id: str) -> str:
    """Partition key ``00``..``ff`` of a skill: the first two hex digits of its id's hash part."""
    return skill_id.rpartition("-")[2][:2]


def bucket_keys() -> list[str]:
    return [f"{n:02x}" for n in range(BUCKETS)]


def seed_key(day: date, content: str) -> str:
    """Partition key ``yymmdd-<12 hex>``; a prefix is one night's contiguous batch."""
    return f"{day:%y%m%d}-{content[:12]}"
