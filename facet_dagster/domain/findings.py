"""What was tried on a validated task to find out whether its verifier can tell right from wrong.

The values of a certificate (its probes, and what each of them found).
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from facet_dagster.domain.outcome import Reason, Sparse, Value

Kind = Literal[
    "baseline",
    "oracle",
    "twice",
    "attack",
    "partial",
    "reseeded",
    "stale",
    "file_mutant",
    "equivalent",
    "semantic",
    "second",
    "blind",
    "rebuilt",
]
RIGHT: frozenset[str] = frozenset(
    {"oracle", "twice", "reseeded", "equivalent", "second", "blind", "positive", "rebuilt"}
)


def wanted_reward(ident: str) -> Literal[0, 1]:
    """What a probe must get. ``ident`` is its kind, or its id, which begins with the kind and a slash."""
    return 1 if ident.partition("/")[0] in RIGHT else 0


class Variant(Value):
    """One file of a final state, altered. ``path`` is relative to /app; ``data`` is None when it is removed.

    ``kind`` names the alteration, ``what`` says it in a sentence.
    """

    id: str
    path: str
    kind: str
    what: str
    data: bytes | None


class Probe(Value):
    """One trial, or judgement, of a certificate: what was done, what was wanted, and what came out.

    ``id`` is the kind, a slash, and a name. ``reward`` is None when no valid one was written. ``crashed``: the program
    itself failed, so that the verdict says nothing. ``failed`` are the checks that failed; blocked ones saw nothing.
    """

    id: str
    kind: Kind
    what: str
    wanted: Literal[0, 1]
    reward: int | None
    failed: tuple[str, ...] = ()
    crashed: bool = False
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether it came out as wanted. A crash proves nothing and is no disagreement."""
        return self.crashed or self.reward == self.wanted


class KnownState(Sparse):
    """A final state of which it is known what every later verifier must say: ``wanted`` is its reward.

    Of right work only that is known which refused it unfairly: ``checks`` are ids of the checks that may not, and what
    others say of it is theirs. Without any, all must accept it. It is right by the words of its ``instruction``
    (a digest).

    ``app`` and ``artifacts`` are what was left, as artifacts (sha256); ``artifacts`` is empty without services.
    ``reason`` is what a verifier is refused for that says otherwise, ``why`` tells what the state is. It stands for
    the environment's ``image`` alone.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"checks", "instruction"})
    wanted: Literal[0, 1]
    reason: Reason
    why: str
    app: str
    image: str
    artifacts: str = ""
    checks: tuple[str, ...] = ()
    instruction: str = ""


class KillMatrix(Value):
    """Which checks refuse which wrong states: check id -> ids of the probes that it failed."""

    kills: dict[str, tuple[str, ...]] = Field(default={})

    @property
    def distinct(self) -> int:
        """Checks with a kill set of their own; equal ones count once, empty ones not at all."""
        return len({killed for killed in self.kills.values() if killed})

    @property
    def padding(self) -> float:
        """Share of checks whose kill set another one has already, or that kill nothing."""
        return 1 - self.distinct / len(self.kills) if self.kills else 0.0


def kill_matrix(checks: tuple[str, ...], probes: tuple[Probe, ...]) -> KillMatrix:
    """From every probe that should have been refused."""
    wrong = [probe for probe in probes if probe.wanted == 0 and not probe.crashed]
    return KillMatrix(kills={check: tuple(p.id for p in wrong if check in p.failed) for check in checks})
