"""The tape: recorded replies and rankings, as JSON lines that a reviewer can diff.

::

    {"kind":"meta","how":...,"made":"2030-01-31","model":...,"project":"0.1.0"}      first line, once
    {"kind":"pin","name":...,"subject":...,"values":[...]}                           a ranking
    {"kind":"reply","call":...,"template":...,"variables":...,"attempt":0,"turn":0,...}
    {"kind":"turn","label":...,"turn":0,"screen":...,"reply":...}                    of another program: ``tape_server``

Keys are sorted inside a line. A reply is found by (call, template, variables, attempt), which is the tape
key, and by its turn: 0 is the answer, 1 the repaired one. ``template`` and ``variables`` are digests;
``inputs`` holds a short digest per variable, so that a stale entry can say which one changed. A tape never
holds keys, headers or endpoints.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from facet_dagster.domain.ids import digest, to_json
from facet_dagster.domain.outcome import Value
from facet_dagster.errors import ConfigError

Key = tuple[str, ...]


class TapeMeta(Value):
    """Where a tape comes from. ``made`` is an ISO date, ``project`` this project's version."""

    kind: Literal["meta"] = "meta"
    model: str
    how: str
    made: str
    project: str

    @property
    def key(self) -> Key:
        return ("meta",)


class TapePin(Value):
    """A recorded ranking: what ``LLM.pin`` returns under (name, subject)."""

    kind: Literal["pin"] = "pin"
    name: str
    subject: str
    values: list[str]

    @property
    def key(self) -> Key:
        return ("pin", self.name, self.subject)


class TapeReply(Value):
    """One final exchange. ``subject`` is who asked first; it is no part of the key."""

    kind: Literal["reply"] = "reply"
    call: str
    template: str
    variables: str
    inputs: dict[str, str]
    attempt: int
    turn: int
    subject: str
    reply: str
    finish: str = "stop"
    prompt_tokens: int
    completion_tokens: int

    @property
    def tape_key(self) -> str:
        """Equals ``Rendered.tape_key`` of the prompt that was answered."""
        return digest([self.call, self.template, self.variables, self.attempt])

    @property
    def key(self) -> Key:
        return ("reply", self.tape_key, str(self.turn))


class TapeTurn(Value):
    """The ``turn``-th answer (from 0) in the conversation ``label`` of another program, such as one trial of an agent.

    ``screen`` is the digest of what that program had shown last, normalised.
    """

    kind: Literal["turn"] = "turn"
    label: str
    turn: int
    screen: str
    reply: str
    finish: str = "stop"
    prompt_tokens: int
    completion_tokens: int

    @property
    def key(self) -> Key:
        return ("turn", self.label, str(self.turn))


TapeEntry = TapeMeta | TapePin | TapeReply | TapeTurn
_ENTRY: TypeAdapter[TapeEntry] = TypeAdapter(Annotated[TapeEntry, Field(discriminator="kind")])


@dataclass
class Tape:
    """A tape in memory. Of two entries with one key the later counts."""

    meta: TapeMeta
    replies: dict[Key, TapeReply] = field(default_factory=dict)
    pins: dict[tuple[str, str], TapePin] = field(default_factory=dict)
    turns: dict[tuple[str, int], TapeTurn] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Tape:
        """Read a tape. Raises ConfigError for a missing file, and for a damaged one with the line number."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ConfigError(
                f"The tape {path} cannot be read ({error.strerror}): point FACET_TAPE to a recorded tape,"
                " or set FACET_MODEL to ask a model."
            ) from error
        return cls.of(read_lines(data, path), path)

    @classmethod
    def of(cls, entries: Iterable[TapeEntry], path: Path) -> Tape:
        """A tape of ``entries``, of which the first must be the meta line; ``path`` is for the error text."""
        rest = iter(entries)
        meta = next(rest, None)
        if not isinstance(meta, TapeMeta):
            raise ConfigError(f'The tape {path} does not start with a "meta" line: it is no tape, or was cut.')
        tape = cls(meta)
        for entry in rest:
            if isinstance(entry, TapeReply):
                tape.replies[entry.key] = entry
            elif isinstance(entry, TapePin):
                tape.pins[entry.name, entry.subject] = entry
            elif isinstance(entry, TapeTurn):
                tape.turns[entry.label, entry.turn] = entry
        return tape

    def reply(self, tape_key: str, turn: int) -> TapeReply | None:
        return self.replies.get(("reply", tape_key, str(turn)))

    def sorted_text(self) -> str:
        """The whole tape in canonical order, so that recording again gives a small diff."""
        pins: list[TapeEntry] = [*sorted(self.pins.values(), key=lambda pin: pin.key)]
        replies = sorted(self.replies.values(), key=lambda r: (r.call, r.subject, r.attempt, r.turn, r.tape_key))
        turns = sorted(self.turns.values(), key=lambda t: (t.label, t.turn))
        return "".join(line(entry) for entry in [self.meta, *pins, *replies, *turns])

    def write(self, path: Path) -> None:
        """Replace ``path`` by the canonical text, atomically."""
        aside = path.with_suffix(f".{os.getpid()}.new")
        aside.write_text(self.sorted_text(), encoding="utf-8")
        aside.replace(path)


def line(entry: TapeEntry) -> str:
    """One line of a tape, newline included."""
    return to_json(entry) + "\n"


def read_lines(data: bytes, path: Path) -> list[TapeEntry]:
    """Entries of a tape's bytes. Raises ConfigError naming ``path`` and the first bad line."""
    entries = []
    for number, row in enumerate(data.split(b"\n"), start=1):
        if row.strip():
            try:
                entries.append(_ENTRY.validate_json(row))
            except ValidationError as error:
                first = error.errors(include_url=False, include_input=False)[0]
                where = ".".join(map(str, first["loc"]))
                raise ConfigError(
                    f"Line {number} of the tape {path} is damaged ({where or 'line'}: {first['msg']}):"
                    " restore the file, or record it again."
                ) from error
    return entries
