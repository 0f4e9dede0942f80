"""Layout of YAML, by the marks that the parser gives: comments, quotes and indents stay as they are."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import yaml

from facet_dagster.domain.variants.layout import Layout, same_kind

# The parser is slow, more so in nested brackets, and aliases make small texts say much.
YAML_LIMIT = 16 * 1024
_DEPTH = 50


def yaml_layout(text: str) -> Layout:
    """Raises ValueError or YAMLError: broken, too large, with aliases, or nothing but one text."""
    if len(text) > YAML_LIMIT or _depth(text) > _DEPTH:
        raise ValueError("too large")
    if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text, Loader=yaml.SafeLoader)):
        raise ValueError("has aliases")
    layout = Layout("yaml", _value, null="null")
    for node in yaml.compose_all(text, Loader=yaml.SafeLoader):
        if isinstance(node, yaml.CollectionNode):
            _walk(text, node, "", layout)
    if not layout.slots:
        raise ValueError("no collection")
    _value(text)
    return layout


def _depth(text: str) -> int:
    """The most brackets that are open at once, those in quotes and comments included."""
    steps = ((character in "[{") - (character in "]}") for character in text)
    return max(accumulate(steps), default=0)


def _value(text: str) -> Any:
    if len(text) > 2 * YAML_LIMIT:
        raise ValueError("too large")
    return [same_kind(value) for value in yaml.load_all(text, Loader=yaml.SafeLoader)]


def _walk(text: str, node: yaml.Node, group: str, layout: Layout) -> None:
    if isinstance(node, yaml.ScalarNode):
        raw = text[node.start_mark.index : node.end_mark.index]
        if raw and node.style not in ("|", ">") and raw[0] not in "!&":
            layout.slot(node.start_mark.index, node.end_mark.index, group)
        return
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _walk(text, item, f"{group}[]", layout)
        _rows(text, node, [item.start_mark for item in node.value], group, layout)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            name = str(key.value)[:60] if isinstance(key, yaml.ScalarNode) else "?"
            _walk(text, value, f"{group}.{name}" if group else name, layout)
        _rows(text, node, [key.start_mark for key, _ in node.value], group, layout)


def _rows(text: str, node: yaml.CollectionNode, marks: list[Any], group: str, layout: Layout) -> None:
    """Whole lines from one item of a block to the next: not the last item, whose end is the next thing's begin."""
    fields = isinstance(node, yaml.MappingNode)
    if node.flow_style:
        return
    starts = [mark.index - mark.column for mark in marks]
    clean = [text[start : mark.index].strip() in ("", "-") for start, mark in zip(starts, marks, strict=True)]
    spans = []
    for index in range(len(starts) - 1):
        begins_field = fields and "-" in text[starts[index] : marks[index].index]
        if clean[index] and clean[index + 1] and not begins_field and starts[index] < starts[index + 1]:
            spans.append((starts[index], starts[index + 1]))
    layout.rows(spans, group, fields=fields, cuts=spans)
