"""Agents on tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from facet_dagster.domain.rollout import RawAttempt, RolloutProtocol


@dataclass(frozen=True)
class Order:
    """``attempts`` rollouts on the task ``key``, whose package ``write`` puts into a folder."""

    key: str
    write: Callable[[Path], None]
    attempts: int


class Harness(Protocol):
    """Agents on tasks: a rollout is one attempt in fresh containers, judged by the task's verifier."""

    def run(self, orders: Sequence[Order], protocol: RolloutProtocol, done: Callable[[RawAttempt], None]) -> None:
        """Make all attempts; ``done`` gets each as it ends, from this thread. What agents do is data.

        Raises ConfigError when there is no harness, a transient SandboxError when it ends early: what was told stays.
        """
        ...

    def stop(self) -> None:
        """End what runs: ``run`` raises a transient SandboxError and leaves nothing."""
        ...
