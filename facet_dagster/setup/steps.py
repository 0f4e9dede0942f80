"""What a set-up step is, and the loop that runs steps and tells how each went."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from rich.console import Console
from rich.markup import escape

from facet_dagster.setup.errors import SetupError

Say = Callable[[str], None]
State = Literal["done", "skipped", "unavailable"]
_COLOURS: dict[str, str] = {"done": "green", "skipped": "dim", "unavailable": "yellow", "failed": "red"}


@dataclass(frozen=True)
class Outcome:
    """How a step ended: `unavailable` is told and lived with, a failure is raised instead."""

    state: State
    detail: str


class Step(Protocol):
    """One idempotent part of set-up."""

    name: str
    waits_for: str

    def needed(self) -> bool:
        """Whether there is anything to do."""
        ...

    def run(self, say: Say) -> Outcome:
        """Do it, saying what is waited for. Raises SetupError."""
        ...


def run_steps(steps: Sequence[Step], console: Console) -> None:
    """Run the steps in order, a line for each. Raises SetupError at the first that fails."""
    for number, step in enumerate(steps, 1):
        _run_step(step, f"[{number}/{len(steps)}] {step.name}", console)


def _run_step(step: Step, title: str, console: Console) -> None:
    started = time.monotonic()

    def line(state: str, detail: str) -> None:
        colour = _COLOURS[state]
        seconds = time.monotonic() - started
        console.print(
            f"{escape(title)}: [{colour}]{state}[/{colour}] {escape(detail)} ({seconds:.1f} s)",
            soft_wrap=True,
        )

    try:
        if not step.needed():
            line("skipped", "nothing to do")
            return
        with console.status(f"{escape(title)}: waiting for {escape(step.waits_for)}") as status:

            def say(text: str) -> None:
                message = f"{escape(title)}: waiting for {escape(text)}"
                status.update(message)
                # A log has no status line that changes in place.
                if not console.is_terminal:
                    console.print(message)

            outcome = step.run(say)
        line(outcome.state, outcome.detail)
    except SetupError:
        line("failed", "see the message below")
        raise
