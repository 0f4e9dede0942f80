"""Agents on certified tasks: one trial record for each attempt, and what makes a trajectory fit for training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from facet_dagster.domain.outcome import Reason, Sparse, Value
from facet_dagster.domain.trial import CheckResult


class RolloutProtocol(Sparse):
    """Under which conditions attempts were made: figures of different protocols are not compared.

    ``max_turns`` 0: no limit but time. ``seconds`` an attempt may take, whatever the task's package states; 0: what it
    states.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"seconds"})

    agent: str
    model: str
    temperature: float
    max_turns: int
    context_tokens: int
    seconds: float = 0.0


@dataclass(frozen=True)
class RawAttempt:
    """A finished rollout as the harness tells it. ``reward`` is None when none is valid, and ``error`` says why.

    ``again``: nothing was learnt about the agent, and another try may go better. ``judge_failed``: the verifier ended
    without a valid reward. ``trajectory`` is a valid ATIF file, or None and then ``problem`` says why.
    """

    key: str
    trial: str
    reward: float | None
    checks: bytes | None
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    seconds: float
    error: str
    again: bool
    judge_failed: bool
    trajectory: bytes | None
    problem: str


class Attempt(Value):
    """One trial of an agent, read from Harbor's files. ``number`` counts from 1.

    ``reward`` is None when the verifier gave none that is valid, whatever the agent did: that is no failure of the
    agent. ``error`` is the exception that Harbor recorded, such as a timeout. ``trajectory`` is the ATIF file as an
    artifact (sha256), empty when there is none that is valid, and then ``problem`` says why. ``cost`` in USD, None
    when the price is unknown.
    """

    number: int
    trial: str
    reward: Literal[0, 1] | None
    checks: tuple[CheckResult, ...]
    turns: int
    commands: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    seconds: float
    error: str
    trajectory: str
    problem: str = ""

    @property
    def missed(self) -> tuple[str, ...]:
        """Ids of the checks that did not pass."""
        return tuple(check.id for check in self.checks if check.status != "pass")


class Rollouts(Value):
    """All attempts on one task under one protocol; ``package`` is the address of the task's archive."""

    seed: str
    package: str
    protocol: RolloutProtocol
    attempts: tuple[Attempt, ...]


class Judged(Value):
    """Whether a trajectory may be trained on. ``reasons`` are empty for an accepted one; ``what`` tells them.

    ``tokens`` are those of all messages by the tokenizer that ``Trajectories`` names.
    """

    number: int
    trajectory: str
    tokens: int
    reasons: tuple[Reason, ...] = ()
    what: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        return not self.reasons


class Trajectories(Value):
    """The judged attempts of one task."""

    seed: str
    package: str
    protocol: RolloutProtocol
    tokenizer: str
    longest: int = Field(description="tokens that a trajectory may have")
    judged: tuple[Judged, ...]


class Message(Value):
    """A turn of a conversation, exactly as it was written."""

    role: Literal["system", "user", "assistant"]
    content: str


class Conversation(Value):
    """What a trajectory says: its messages, and the keystrokes of its commands in order."""

    messages: tuple[Message, ...]
    keystrokes: tuple[str, ...]
    finished: bool = Field(description="the agent said that it is done, and was not cut off")
