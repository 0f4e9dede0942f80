"""Each step leaves one line that says how it went, and a failure ends the set-up."""

from __future__ import annotations

import io
from dataclasses import dataclass, field

import pytest
from rich.console import Console

from facet_dagster.setup.errors import SetupError
from facet_dagster.setup.steps import Outcome, Say, run_steps


@dataclass
class Recorded:
    name: str
    outcome: Outcome | None = None
    due: bool = True
    waits_for: str = "something"
    ran: list[str] = field(default_factory=list)

    def needed(self) -> bool:
        return self.due

    def run(self, say: Say) -> Outcome:
        self.ran.append(self.name)
        say("a [bracketed] thing")
        if self.outcome is None:
            raise SetupError("It is broken; mend it.")
        return self.outcome


def console() -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, width=200, soft_wrap=True, highlight=False), out


def test_done_skipped_and_unavailable_are_told_apart() -> None:
    screen, out = console()
    idle = Recorded("Idle", due=False)
    run_steps(
        [Recorded("First", Outcome("done", "made it")), idle, Recorded("Tool", Outcome("unavailable", "no luck"))],
        screen,
    )
    lines = out.getvalue().splitlines()
    assert lines[0] == "[1/3] First: waiting for a [bracketed] thing"
    assert lines[1].startswith("[1/3] First: done made it (0.")
    assert lines[2].startswith("[2/3] Idle: skipped")
    assert lines[4].startswith("[3/3] Tool: unavailable no luck")
    assert idle.ran == []


def test_a_failure_stops_before_the_next_step() -> None:
    screen, out = console()
    later = Recorded("Later", Outcome("done", ""))
    with pytest.raises(SetupError, match="It is broken; mend it"):
        run_steps([Recorded("Broken"), later], screen)
    assert "[1/2] Broken: failed" in out.getvalue()
    assert later.ran == []
