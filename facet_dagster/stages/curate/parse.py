"""Tolerant reading of a SKILL.md: whatever its front matter looks like, something usable comes out.

Public skills break every rule of the format: missing or odd fences, unquoted colons, JSON instead of
YAML, other encodings. ``parse`` never raises; what it had to tolerate stands in ``notes``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from facet_dagster.stages.curate.matter import read_lines, read_yaml

FENCE = re.compile(r"^\s*(?:-{3,}|[\u2013\u2014]{1,3}|-{1,2}[\u2013\u2014])\s*$")
HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+\S|^ {0,3}#{1,6}[^\s#!]")
KEY = re.compile(r"^(?:#+ )?(?:name|description|slug|title|summary)\s*:", re.IGNORECASE)
WRAPPERS = {"", "markdown", "md", "mdx", "yaml", "yml", "skill", "prompt", "chatagent", "text", "txt"}
HIDDEN = re.compile("[\u200b\u2060\ufeff\u00ad\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
# UTF-8 that somebody read as Latin-1, Windows-1252 or Mac Roman, or that was lost already.
MOJIBAKE = re.compile(
    "\u00c3[\u0080-\u00bf]|\u00e2\u20ac|\u201a\u00c4|\u00f0\u0178|[\u0080-\u0084\u0086-\u009f]|\ufffd"
)
MOST_HEADER_LINES = 400
NAME, DESCRIPTION = 120, 1024


@dataclass(frozen=True)
class Parsed:
    """``text`` is the whole decoded file; ``matter`` the front matter as texts, lists and mappings.

    ``damaged`` is the share of characters (0 to 1) that could not be decoded or are control characters.
    """

    name: str
    title: str
    description: str
    body: str
    text: str
    matter: Mapping[str, Any]
    headed: bool
    damaged: float
    notes: tuple[str, ...]


def parse(text: str, *, slug: str = "", damaged: float = 0.0, notes: Sequence[str] = ()) -> Parsed:
    """Read the decoded text of one SKILL.md; ``slug`` names a skill that does not name itself."""
    matter, body, more = split(text)
    title = next((head for level, head in headings(body) if level == 1), "")
    some = next((head for _, head in headings(body)), "")
    given = _line(matter.get("name"))
    description = _line(matter.get("description") or matter.get("summary")) or first_paragraph(body)
    if not given:
        more = [*more, "name missing"]
    if not _line(matter.get("description")):
        more = [*more, "description missing"]
    more += [
        f"{what} cut"
        for what, text, most in (("name", given, NAME), ("description", description, DESCRIPTION))
        if len(text) > most
    ]
    return Parsed(
        name=(given or slug or title)[:NAME],
        title=(title or _line(matter.get("title") or matter.get("displayName")) or given or slug or some)[:200],
        description=description[:DESCRIPTION],
        body=body.strip("\n"),
        text=text,
        matter=matter,
        headed=bool(matter or title or some),
        damaged=damaged,
        notes=tuple(dict.fromkeys([*notes, *more])),
    )


def decode(data: bytes) -> tuple[str, float, list[str]]:
    """Text with ``\\n`` line ends, the damaged share, and notes."""
    text, notes = _decode(data)
    damaged = (text.count("\ufffd") + len(CONTROL.findall(text))) / max(len(text), 1)
    if "\r" in text:
        notes.append("line ends normalised")
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if CONTROL.search(text):
        notes.append("control characters removed")
        text = CONTROL.sub("", text)
    if MOJIBAKE.search(text):
        notes.append("wrongly decoded characters left")
    if HIDDEN.search(text):
        notes.append("hidden characters removed")
        text = HIDDEN.sub("", text)
    return text, damaged, notes


def _decode(data: bytes) -> tuple[str, list[str]]:
    for mark, encoding in ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace"), [f"{encoding} byte order mark"]
    odd, even = data[1:400:2], data[0:400:2]
    if len(data) >= 8 and odd.count(0) > 0.8 * len(odd) and even.count(0) == 0:
        return data.decode("utf-16-le", "replace"), ["utf-16-le without a mark"]
    try:
        return data.decode("utf-8"), []
    except UnicodeDecodeError:
        return _guess(data)


def _guess(data: bytes) -> tuple[str, list[str]]:
    """Not UTF-8: a few broken bytes, Chinese GB 18030, or a Western code page."""
    text = data.decode("utf-8", "replace")
    if text.count("\ufffd") < 0.001 * len(text) or 0 in data:
        return text, ["undecodable bytes replaced"]
    try:
        chinese = data.decode("gb18030")
    except UnicodeDecodeError:
        chinese = ""
    foreign = [c for c in chinese if c > "\x7f"]
    if len(foreign) > 0.05 * len(chinese) and sum(
        "\u4e00" <= c <= "\u9fff" or "\u3000" <= c <= "\uffef" for c in foreign
    ) > 0.9 * len(foreign):
        return chinese, ["decoded as gb18030"]
    western = sum(byte > 0x9F for byte in data) > 0.9 * sum(byte > 0x7F for byte in data)
    if western and sum(byte > 0x7F for byte in data) < 0.1 * len(data):
        return data.decode("cp1252", "replace"), ["decoded as cp1252"]
    return text, ["undecodable bytes replaced"]


def split(text: str) -> tuple[dict[str, Any], str, list[str]]:
    """Front matter, body, notes. Without front matter the body is the whole text."""
    text, notes = _unwrap(text)
    if text.lstrip().startswith("{"):
        matter, body = _json_start(text.lstrip())
        if matter:
            return matter, body, [*notes, "JSON front matter"]
    header, body, more = _cut(text.split("\n"))
    if header is None:
        return {}, text, [*notes, "no front matter"]
    matter, how = read_yaml(header)
    if not matter:
        matter, how = read_lines(header), [*how, "front matter read line by line"]
    if not matter:
        return {}, text, [*notes, *more, "front matter is not a mapping"]
    return matter, body, [*notes, *more, *how]


def _unwrap(text: str) -> tuple[str, list[str]]:
    """Take off a code fence around the whole file or around the front matter, and comments before it."""
    notes = list[str]()
    stripped = text.lstrip()
    while stripped.startswith("<!--") and "-->" in stripped and len(notes) < 20:
        stripped = stripped.partition("-->")[2].lstrip()
        notes.append("comment before the front matter")
    first, _, rest = stripped.partition("\n")
    opening = re.fullmatch(r"(`{3,}|~{3,})\s*([\w-]*)\s*", first)
    inner = rest.lstrip()
    named = opening and opening[2].lower() in {"markdown", "md"} and inner.startswith("#")
    if named or (opening and opening[2].lower() in WRAPPERS and (inner.startswith("---") or KEY.match(inner))):
        lines = rest.split("\n")
        ends = [n for n, line in enumerate(lines) if line.strip() == first.strip()[:3]]
        if named and not (ends and not any(line.strip() for line in lines[ends[-1] + 1 :])):
            return rest.lstrip("\n"), [*notes, "code fence taken off"]
        if ends:
            whole = not any(line.strip() for line in lines[ends[-1] + 1 :])
            end = ends[-1] if whole else ends[0]
            return "\n".join(lines[:end] + lines[end + 1 :]).lstrip("\n"), [*notes, "code fence taken off"]
    return (stripped if notes else text), notes


def _json_start(text: str) -> tuple[dict[str, Any], str]:
    try:
        value, end = json.JSONDecoder().raw_decode(text[:65_536])
    except (ValueError, RecursionError):
        return {}, text
    if not isinstance(value, dict) or not value:
        return {}, text
    rest = text[end:].strip()
    for key in ("instructions", "body", "content", "prompt"):
        if not rest and isinstance(value.get(key), str):
            rest = value.pop(key)
    return {str(key): item for key, item in value.items()}, rest


def _cut(lines: list[str]) -> tuple[str | None, str, list[str]]:
    """Header text (None: there is none), body, notes."""
    start = next((n for n, line in enumerate(lines) if line.strip()), 0)
    if lines and FENCE.match(lines[start]):
        return _fenced(lines, start)
    fences = [n for n, line in enumerate(lines[:60]) if FENCE.match(line)]
    if KEY.match(lines[start]) and not fences:
        end = next((n for n in range(start, len(lines)) if not lines[n].strip()), len(lines))
        return "\n".join(lines[start:end]), "\n".join(lines[end:]), ["fences missing"]
    if KEY.match(lines[start]) and fences:
        return "\n".join(lines[start : fences[0]]), "\n".join(lines[fences[0] + 1 :]), ["opening fence missing"]
    if fences and fences[0] < 30 and len(lines) > fences[0] + 1 and KEY.match(lines[fences[0] + 1]):
        header, body, notes = _fenced(lines, fences[0])
        return header, "\n".join(lines[: fences[0]]) + "\n" + body, [*notes, "text before the front matter"]
    return None, "\n".join(lines), []


def _fenced(lines: list[str], start: int) -> tuple[str | None, str, list[str]]:
    notes = [] if lines[start] == "---" and start == 0 else ["odd fence"]
    end = next((n for n in range(start + 1, min(len(lines), start + MOST_HEADER_LINES)) if FENCE.match(lines[n])), None)
    title = next((n for n in range(start + 1, len(lines)) if HEADING.match(lines[n]) and not KEY.match(lines[n])), None)
    if end is not None and not (title is not None and title < end and _prose_follows(lines[title + 1 : end])):
        notes = notes or ([] if lines[end] == "---" else ["odd fence"])
        return "\n".join(lines[start + 1 : end]), "\n".join(lines[end + 1 :]), notes
    if title is None:
        title = next((n for n in range(start + 1, len(lines)) if not lines[n].strip()), len(lines))
    return "\n".join(lines[start + 1 : title]), "\n".join(lines[title:]), [*notes, "closing fence missing"]


def _prose_follows(lines: list[str]) -> bool:
    """Whether a heading inside the fences begins the body (a comment of the YAML is followed by keys)."""
    following = next((line for line in lines if line.strip()), "")
    return bool(following) and not re.match(r"^\s*(?:[\w\"'.$-]+\s*:|- |#|[}\]])", following)


def headings(body: str) -> Iterator[tuple[int, str]]:
    """Level and text of the headings outside code blocks, in order."""
    fence, previous = "", ""
    for line in body.split("\n"):
        mark = re.match(r"^\s*(`{3,}|~{3,})", line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        elif not fence:
            if HEADING.match(line):
                text = line.strip()
                yield len(text) - len(text.lstrip("#")), _line(text.strip("#"))
            elif re.match(r"^(?:={3,}|-{3,})\s*$", line) and re.match(r"^\w", previous) and line[0] == "=":
                yield 1, _line(previous)
            elif tag := re.search(r"<h([1-3])[^<>]*>([^<]+)", line, re.IGNORECASE):
                yield int(tag[1]), _line(tag[2])
        previous = line


def first_paragraph(body: str) -> str:
    """The first lines of prose: no heading, code, table, list mark or HTML."""
    for block in re.split(r"\n\s*\n", body):
        plain = [line for line in block.split("\n") if line.strip() and not HEADING.match(line)]
        if plain and not re.match(r"^\s*(?:`{3}|~{3}|\||<|-{3}|!\[)", plain[0]):
            return _line(" ".join(line.strip().lstrip(">*- ") for line in plain))
    return ""


def _line(value: Any) -> str:
    """Any front matter value as one line of text."""
    if isinstance(value, list):
        value = ", ".join(str(item) for item in value)
    if value is None or isinstance(value, dict):
        return ""
    text = " ".join(str(value).split())
    return "" if text.lower() in {"null", "~"} else text
