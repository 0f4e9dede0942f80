"""Commands in what an agent types: parsed as bash by tree-sitter, each with its class (paper, Table 6).

The parser never refuses a text: keystrokes that are no shell, or half of a line, still give what can be read of them.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from tree_sitter import Language, Node, Parser, Query, QueryCursor

from facet_dagster.reports.command_classes import Class, class_of

# Characters of one text that are read, here-documents left out: the parser takes quadratic time on nonsense.
LONGEST = 8 * 1024
_HERE = re.compile(r"<<-?\s*[\"'\\]?([A-Za-z_]\w*)")
MOST = 1024 * 1024  # of one text that is looked at
_KEY = re.compile(r"(?:[CMS]-\S|Enter|Escape|Tab|Space|BSpace|Up|Down|Left|Right|Home|End|PageUp|PageDown|NPage|PPage)")
_NAME = re.compile(r"[\w.+@\[\]:-]{1,40}")
_VERSIONED = re.compile(r"(python|pip)[\d.]*")
# Before the program that does the work; their own options may take a word.
_WRAPPERS = {
    "sudo": "uUgGpChrtRTD",
    "nohup": "",
    "time": "fo",
    "timeout": "ks",
    "command": "",
    "exec": "a",
    "stdbuf": "ioe",
    "env": "uCS",
}
_OUTPUT = re.compile(r"(?:1|&)?>{1,2}\|?\s*(?!&|\d\b|/dev/(?:null|std|fd|tty))\S")


class Command(NamedTuple):
    """One simple command: its program, without a folder, and what it is used for."""

    name: str
    kind: Class


class Typed(NamedTuple):
    """What one text holds; ``broken``: it is not bash as a whole."""

    commands: tuple[Command, ...]
    broken: bool


def typed(text: str) -> Typed:
    """The commands of ``text`` in their order."""
    text, whole = _without_documents(text[:MOST])
    if all(map(_KEY.fullmatch, text.split())):  # keys of the terminal, or nothing
        return Typed((), broken=False)
    parser, query = _parser()
    root = parser.parse(text[:LONGEST].encode(errors="replace")).root_node
    found = QueryCursor(query).captures(root)
    nodes = sorted(found.get("command", ()), key=lambda node: node.start_byte)
    writing = _writing(found.get("redirect", ()), [node.start_byte for node in nodes])
    commands = (_command(node, writes=place in writing) for place, node in enumerate(nodes))
    return Typed(tuple(one for one in commands if one is not None), root.has_error or not whole)


def _without_documents(text: str) -> tuple[str, bool]:
    """The text without the lines of its here-documents, and whether the rest is short enough to be read whole."""
    if "<<" in text:
        lines = text.split("\n")
        last = {line.strip(): place for place, line in enumerate(lines)}
        kept, until = list[str](), ""
        for place, line in enumerate(lines):
            if until and line.strip() != until:
                continue
            found = None if until else _HERE.search(line)
            until = found[1] if found and last.get(found[1], 0) > place else ""
            kept.append(line)
        text = "\n".join(kept)
    return text, len(text) <= LONGEST


@cache
def _parser() -> tuple[Parser, Query]:
    import tree_sitter_bash  # a shared object, which other commands need not load

    language = Language(tree_sitter_bash.language())
    return Parser(language), Query(language, "(command) @command (file_redirect) @redirect")


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")


def _writing(redirects: Iterable[Node], starts: list[int]) -> set[int]:
    """Which commands, by place, have their output in a file: for each redirect the last before it, of its statement."""
    found = set()
    for redirect in redirects:
        statement, place = redirect.parent, bisect_left(starts, redirect.start_byte) - 1
        if statement and place >= 0 and starts[place] >= statement.start_byte and _OUTPUT.match(_text(redirect)):
            found.add(place)
    return found


def _command(node: Node, *, writes: bool) -> Command | None:
    name = node.child_by_field_name("name")
    if name is None:
        return None
    words = [_text(name), *(_text(child) for child in node.children_by_field_name("argument"))]
    while words and words[0] in _WRAPPERS:
        words = _unwrapped(words)
    if not words:
        return Command(_text(name), Class.ACTION)
    program = _program(words[0])
    return Command(program, Class.ACTION if writes else class_of(program, words[1:]))


def _unwrapped(words: list[str]) -> list[str]:
    """The words after a wrapper, its options and assignments."""
    wrapper, rest = words[0], words[1:]
    taking = _WRAPPERS[wrapper]
    while rest and (rest[0].startswith("-") or "=" in rest[0]):
        own = 2 if len(rest[0]) == 2 and rest[0][1:] in taking else 1
        rest = rest[own:]
    return rest[1:] if wrapper == "timeout" else rest


def _program(word: str) -> str:
    """The bare name of a program; what is no plain word has none of its own."""
    bare = word.strip("\"'").rpartition("/")[2]
    versioned = _VERSIONED.fullmatch(bare)
    if versioned:
        return f"{versioned[1]}3" if versioned[1] == "python" else versioned[1]
    if "$" in word or "`" in word:
        return "(computed)"
    return bare if _NAME.fullmatch(bare) else "(other)"
