"""What agents type, in all: commands, their classes, and how turns follow each other (paper, Table 6, Figure 5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from hashlib import blake2b
from itertools import pairwise

from facet_dagster.domain.outcome import Value
from facet_dagster.reports.command_classes import Class
from facet_dagster.reports.shell import Typed, typed


class State(StrEnum):
    """What a turn of an agent does. The paper names the first two; its row totals imply at least one more."""

    OBSERVATION = "observation only"
    ACTION = "action only"
    MIXED = "both"
    IDLE = "neither"


class Used(Value):
    """A program and how often it was called, in which class. ``kind`` is the class of most of its calls."""

    name: str
    count: int
    kinds: dict[str, int]

    @property
    def kind(self) -> str:
        return max(self.kinds, key=lambda kind: self.kinds[kind])


class CommandReport(Value):
    """Commands of ``trajectories``. ``texts`` were typed, ``broken`` of them are not bash as a whole.

    ``first`` counts the states of first turns, ``moves`` those of pairs of adjacent turns: from -> to -> how often.
    ``programs`` are ordered by their count.
    """

    trajectories: int
    turns: int
    texts: int
    broken: int
    commands: int
    kinds: dict[str, int]
    programs: tuple[Used, ...]
    first: dict[str, int]
    moves: dict[str, dict[str, int]]

    def share_of_top(self, count: int) -> float | None:
        """Of all calls, those of the ``count`` most called programs."""
        top = sum(used.count for used in self.programs[:count])
        return top / self.commands if self.commands else None

    def move(self, before: State, after: State) -> tuple[int, int]:
        """How many turns ``before`` are followed by ``after``, and how many are followed by any."""
        row = self.moves.get(before, {})
        return row.get(after, 0), sum(row.values())

    def distribution(self) -> dict[str, float]:
        """Share of each program."""
        return {used.name: used.count / self.commands for used in self.programs} if self.commands else {}


class Reader:
    """Parses each different text once, however many trajectories hold it."""

    def __init__(self) -> None:
        self._known: dict[bytes, Typed] = {}

    def __call__(self, text: str) -> Typed:
        key = blake2b(text.encode(errors="replace"), digest_size=16).digest()
        if key not in self._known:
            self._known[key] = typed(text)
        return self._known[key]


class Tally:
    """Counts trajectories as they are added."""

    def __init__(self, reader: Reader) -> None:
        self._read = reader
        self._numbers = Counter[str]()
        self._programs = Counter[tuple[str, str]]()
        self._first = Counter[str]()
        self._moves = Counter[tuple[str, str]]()

    def add(self, turns: Sequence[Sequence[str]]) -> None:
        """One trajectory: for each turn of the agent, what it typed."""
        states = [self._turn(texts) for texts in turns]
        self._numbers["trajectories"] += 1
        self._numbers["turns"] += len(states)
        self._first.update(states[:1])
        self._moves.update((str(a), str(b)) for a, b in pairwise(states))

    def _turn(self, texts: Sequence[str]) -> State:
        kinds = set[str]()
        for text in texts:
            found = self._read(text)
            self._numbers["texts"] += 1
            self._numbers["broken"] += found.broken
            for command in found.commands:
                self._programs[command] += 1
                kinds.add(command.kind)
        return state_of(kinds)

    def report(self) -> CommandReport:
        """Everything that was added so far."""
        kinds = Counter[str]()
        for (_, kind), count in self._programs.items():
            kinds[kind] += count
        return CommandReport(
            trajectories=self._numbers["trajectories"],
            turns=self._numbers["turns"],
            texts=self._numbers["texts"],
            broken=self._numbers["broken"],
            commands=kinds.total(),
            kinds={str(kind): kinds[kind] for kind in Class},
            programs=_used(self._programs),
            first=dict(self._first),
            moves=_rows(self._moves),
        )


def state_of(kinds: Iterable[str]) -> State:
    """Of a turn with commands of these classes; neutral ones decide nothing."""
    found = set(kinds) - {Class.NEUTRAL}
    if len(found) > 1:
        return State.MIXED
    return (
        {Class.OBSERVATION: State.OBSERVATION, Class.ACTION: State.ACTION}[Class(found.pop())] if found else State.IDLE
    )


def _used(programs: Mapping[tuple[str, str], int]) -> tuple[Used, ...]:
    found: dict[str, dict[str, int]] = {}
    for (name, kind), count in programs.items():
        found.setdefault(name, {})[kind] = count
    lines = [Used(name=name, count=sum(kinds.values()), kinds=kinds) for name, kinds in found.items()]
    return tuple(sorted(lines, key=lambda used: (-used.count, used.name)))


def _rows(moves: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (before, after), count in sorted(moves.items()):
        found.setdefault(before, {})[after] = count
    return found
