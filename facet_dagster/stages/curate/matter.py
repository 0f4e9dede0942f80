"""Two readers for front matter: YAML with bounds, and a line reader that takes anything."""

from __future__ import annotations

import re
from typing import Any

import yaml

CAP = 64 * 1024
DEPTH = 30
TOP_KEY = re.compile(r"^(?:#+ )?([A-Za-z_][\w .-]{0,40}?)\s*:(?:\s+(.*)|\s*)$")
# Every scalar stays text: `name: on` is a name, `version: 1.0` is not a float.
_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def read_yaml(header: str) -> tuple[dict[str, Any], list[str]]:
    """The mapping in ``header``, or an empty one where YAML cannot read it, and notes.

    Aliases are refused, so nothing can expand; so are headers over 64 KiB or nested over 30 deep. Anchors and tags
    are refused because nobody means them: they would swallow the first word of a text.
    """
    if len(header) > CAP:
        return {}, ["front matter over 64 KiB"]
    text = header.replace("\t", "  ")
    try:
        if not _bounded(text):
            return {}, ["front matter uses aliases or tags, or nests too deep"]
        value = yaml.load(text, Loader=_LOADER)  # noqa: S506 - a loader that builds texts, lists and mappings only
    except (yaml.YAMLError, ValueError, RecursionError, TypeError):
        return {}, ["front matter is not valid YAML"]
    if not isinstance(value, dict):
        return {}, []
    keys = [match[1] for line in text.split("\n") if (match := TOP_KEY.match(line))]
    doubled = sorted({key for key in keys if keys.count(key) > 1})
    notes = [f"duplicate key {key}" for key in doubled if key in value]
    return {str(key): item for key, item in value.items()}, notes


def _bounded(text: str) -> bool:
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            return False
        if isinstance(event, yaml.ScalarEvent) and event.tag is not None:
            return False
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEPTH:
            return False
    return True


def read_lines(header: str) -> dict[str, Any]:
    """Top-level ``key: value`` lines; other lines continue the value above them."""
    values: dict[str, list[str]] = {}
    current = None
    for line in header[:CAP].split("\n"):
        match = TOP_KEY.match(line)
        if match:
            current = match[1]
            values[current] = [re.sub(r"^[|>][+-]?\d?(?=\s|$)", "", (match[2] or "").strip())]
        elif current and line.strip() and len(values[current]) < 200:
            values[current].append(line.strip())
    return {key: _unquote(" ".join(part for part in parts if part).strip()) for key, parts in values.items()}


def _unquote(value: str) -> str:
    if len(value) > 1 and value[0] in "\"'":
        return value[1:].replace(value[0] + " ", " ").removesuffix(value[0])
    return value.strip("*") if value.startswith("**") else value
