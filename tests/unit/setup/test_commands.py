"""The commands that a newcomer types."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from facet_dagster.setup.paths import process_env

ROOT = Path(__file__).resolve().parents[3]
TARGETS = {
    *("setup", "demo", "test", "ui", "verify-harbor", "check", "clean-containers", "stop", "help"),
    *("stack-env", "stack-demo", "pin"),
}


def make(*arguments: str) -> str:
    # A make that runs this test must not hand its own flags on.
    env = {key: value for key, value in process_env().items() if not key.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(["make", *arguments], cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout


def test_make_alone_lists_every_target_with_a_sentence() -> None:
    lines = [line.split(None, 1) for line in make().splitlines()]
    assert {words[0] for words in lines} == TARGETS
    assert all(len(words) == 2 for words in lines)


def test_the_test_target_asks_for_what_tests_need() -> None:
    recipe = make("--dry-run", "--no-print-directory", "test", "PYTHON=py", "FACET_HOME=elsewhere")
    assert "py -m facet_dagster.setup --with harbor,browser,second-base,trainer" in recipe
    assert "elsewhere/venv/bin/python -m pytest" in recipe


def test_the_ci_script_runs_the_same_command_strictly() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    lines = script.read_text().splitlines()
    assert "set -euo pipefail" in lines
    assert lines[-1] == "make test"
