"""Layouts of XML and HTML: texts and attributes are values, repeated elements are rows."""

from __future__ import annotations

import re
from typing import Any
from xml.etree.ElementTree import fromstring

from facet_dagster.domain.variants.layout import CAP, Layout

_TAG = re.compile(r"<(/?)([\w:.-]++)([^<>]*?)(/?)>")
_ATTRIBUTE = re.compile(r"([\w:.-]{1,60})\s{0,20}=\s{0,20}(?:\"([^\"<>]*)\"|'([^'<>]*)')")
_ENDS = {"<!--": "-->", "<![CDATA[": "]]>", "<?": "?>", "<!": ">"}
_VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")
)
_RAW = frozenset(("script", "style"))

Token = tuple[str, int, int]  # the tag's name with "/" for an end; "" for text, "!" for what is neither


def markup_layout(text: str, suffix: str) -> Layout:
    """Raises ValueError or ParseError when it is broken, or defines entities."""
    html = suffix in ("html", "htm")
    layout = Layout("html" if html else "xml", _html_value if html else _xml_value)
    layout.value(text)
    tokens = _tokens(text, html=html)
    if not any(name not in ("", "!") for name, _, _ in tokens):
        raise ValueError("no elements")
    _fill(text, tokens, layout, html=html)
    return layout


def _xml_value(text: str) -> Any:
    """Elements with tags, attributes and texts without outer blanks. Entities may say much in few bytes: refused."""
    if "<!ENTITY" in text:
        raise ValueError("defines entities")
    elements = fromstring(re.sub(r"^\s*<\?xml[^>]*\?>", "", text)).iter()  # noqa: S314 - no entities are left
    return [(e.tag, len(e), sorted(e.items()), (e.text or "").strip(), (e.tail or "").strip()) for e in elements]


def _html_value(text: str) -> Any:
    pieces = (" ".join(text[start:end].split()) for name, start, end in _tokens(text, html=True) if name != "!")
    return [piece for piece in pieces if piece]


def _tokens(text: str, *, html: bool) -> list[Token]:
    tokens: list[Token] = []
    at = 0
    while at < len(text) and len(tokens) < CAP:
        name, end = _next(text, at)
        tokens.append((name, at, end))
        at = end
        if html and name.lower() in _RAW:
            end = text.find("</", at)
            tokens.append(("!", at, len(text) if end < 0 else end))
            at = tokens[-1][2]
    return tokens


def _next(text: str, at: int) -> tuple[str, int]:
    if text[at] != "<":
        end = text.find("<", at)
        return "", len(text) if end < 0 else end
    for begin, close in _ENDS.items():
        if text.startswith(begin, at):
            end = text.find(close, at)
            if end < 0:
                raise ValueError("a comment or declaration does not end")
            return "!", end + len(close)
    found = _TAG.match(text, at)
    if not found:
        raise ValueError("a tag does not end")
    return found[1] + found[2] + found[4], found.end()


def _fill(text: str, tokens: list[Token], layout: Layout, *, html: bool) -> None:
    """Walk the elements; the children of one name and one parent, side by side, are rows."""
    stack: list[tuple[str, int, list[tuple[str, int, int]]]] = [("", 0, [])]
    for name, start, end in tokens:
        if name == "":
            _text(text, start, end, stack[-1][0], layout)
        elif name.startswith("/"):
            _close(stack, name[1:], end, layout)
        elif name != "!":
            _attributes(text, start, end, name.rstrip("/"), layout)
            if not name.endswith("/") and not (html and name.lower() in _VOID):
                stack.append((name, start, []))
            else:
                stack[-1][2].append((name.rstrip("/"), start, end))


def _close(stack: list[tuple[str, int, list[tuple[str, int, int]]]], name: str, end: int, layout: Layout) -> None:
    if len(stack) < 2 or stack[-1][0] != name:
        raise ValueError("elements are not nested")
    _, start, children = stack.pop()
    stack[-1][2].append((name, start, end))
    for tag in sorted({child for child, _, _ in children}):
        spans = [(a, b) for child, a, b in children if child == tag]
        if len(spans) > 1:
            layout.rows(spans, f"<{tag}>", cuts=spans)


def _text(text: str, start: int, end: int, tag: str, layout: Layout) -> None:
    inner = text[start:end].strip()
    if inner and tag:
        at = start + text[start:end].find(inner)
        layout.slot(at, at + len(inner), f"<{tag}>")


def _attributes(text: str, start: int, end: int, tag: str, layout: Layout) -> None:
    for found in _ATTRIBUTE.finditer(text[start:end]):
        group = 2 if found[2] is not None else 3
        if not found[1].startswith("xmlns"):
            layout.slot(start + found.start(group), start + found.end(group), f"<{tag} {found[1]}>")
