"""A failed command becomes one sentence; its whole output stays in a log."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from facet_dagster.setup.errors import SetupError
from facet_dagster.setup.process import answers, run_logged, telling_line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Reading\nE: Unable to locate package x\nE: broken\ndone\n", "E: broken"),
        ("a\n\x1b[31mERROR: No matching distribution\x1b[0m\n\nnotice: new pip\n", "ERROR: No matching distribution"),
        ("one\ntwo\n\n", "two"),
        ("\n", "it printed nothing"),
    ],
)
def test_the_telling_line_is_the_last_error(text: str, line: str) -> None:
    assert telling_line(text) == line


def test_success_leaves_the_output_and_the_extra_environment_in_effect(tmp_path: Path) -> None:
    log = tmp_path / "deep" / "x.log"
    run_logged(("sh", "-c", "echo $EXTRA; echo err >&2"), log, what="It", advice="try", env={"EXTRA": "seen"})
    assert log.read_text() == "seen\nerr\n"


def test_failure_names_what_line_log_and_advice(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    with pytest.raises(SetupError) as caught:
        run_logged(("sh", "-c", "echo 'error: disk full'; exit 3"), log, what="Copying", advice="free some space")
    assert str(caught.value) == f"Copying failed with exit code 3: error: disk full (log: {log}); free some space."


def test_a_missing_command_and_a_slow_one_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="'no-such-command' does not exist; install it"):
        run_logged(("no-such-command",), tmp_path / "a.log", what="It", advice="install it")
    with pytest.raises(SetupError, match="did not end within 0 s"):
        run_logged(("sleep", "5"), tmp_path / "b.log", what="It", advice="wait", timeout=0.1)


def test_answers_gives_text_or_nothing() -> None:
    assert answers((sys.executable, "-c", "print(' hi ')")) == "hi"
    assert answers((sys.executable, "-c", "raise SystemExit(1)")) is None
    assert answers(("no-such-command",)) is None
    assert answers(("sleep", "5"), timeout=0.1) is None
