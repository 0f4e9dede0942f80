"""Whole installations: a home folder, the real command, real containers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from facet_dagster.adapters.tape import Tape
from tests.fixtures.handmade_model import HandmadeModel

ROOT = Path(__file__).resolve().parents[2]
SKILLS = ROOT / "tests" / "fixtures" / "handmade" / "skills"
# Their pairs become tasks of which one part each must be repaired.
REPAIRS = ROOT / "tests" / "fixtures" / "handmade" / "repairs"
SEEDS = "9"
TAPE = ROOT / "tests" / "fixtures" / "tapes" / "handmade.jsonl"
REGENERATE = "REGENERATE_TAPE"
HOW = (
    "made by hand: every reply comes from tests/fixtures/handmade_model.py, no model took part; it holds a refused"
    " pair, a build repair, a task repair of each component, a lost environment, a lost and an infeasible task"
)
FACET = Path(sys.executable).with_name("facet")


@dataclass(frozen=True)
class Installation:
    """A FACET_HOME of its own with extra settings."""

    home: Path
    settings: dict[str, str]

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FACET_")}
        # The handmade model writes no mutants and no second solution.
        return {**kept, "FACET_HOME": str(self.home), "FACET_CERTIFICATE": "basic", **self.settings, **more}

    def call(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        command = [str(FACET), *arguments]
        return subprocess.run(
            command, env=self.environment(**more), cwd=self.home, capture_output=True, text=True, check=False
        )

    def json(self, *arguments: str, **more: str) -> Any:
        done = self.call(*arguments, "--json", **more)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return json.loads(done.stdout)


def installation(**settings: str) -> Iterator[Installation]:
    with tempfile.TemporaryDirectory(prefix="facet-e2e-", ignore_cleanup_errors=True) as folder:
        # The fates of the handmade model differ in a word, and few skills lead to all of them.
        wide = {"FACET_SKILL_SHARE": "1", "FACET_SAME_SCENARIO": "1"}
        home = Installation(Path(folder) / "home", {**wide, **settings})
        home.home.mkdir()
        yield home
        home.call("reap")
        home.call("stop")


@dataclass(frozen=True)
class Live:
    """What a live run against the handmade model left: installation, funnel, tape, calls."""

    installation: Installation
    funnel: dict[str, Any]
    tape: Path
    calls: int
    again: dict[str, Any]
    calls_again: int


def ingest(home: Installation) -> None:
    for folder in (SKILLS, REPAIRS):
        home.json("ingest", str(folder))


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """All fates of the handmade model, live, recorded; then the same command once more."""
    tape = tmp_path_factory.mktemp("tape") / "handmade.jsonl"
    with HandmadeModel() as model:
        settings = {
            "FACET_MODEL": "openai/handmade",
            "FACET_API_BASE": model.api_base,
            "FACET_API_KEY": "sk-not-a-secret-but-must-not-leak",
            "FACET_RECORD": str(tape),
            "FACET_NEIGHBOURS": "1",
            "FACET_TASK_REPAIRS": "2",
        }
        for home in installation(**settings):
            ingest(home)
            funnel = home.json("run", "--batch", "e2e", "--seeds", SEEDS)
            calls = model.calls
            again = home.json("run", "--batch", "e2e", "--seeds", SEEDS)
            if os.environ.get(REGENERATE):
                written = Tape.load(tape)
                written.meta = written.meta.model_copy(update={"model": "none", "how": HOW})
                written.write(TAPE)
            yield Live(home, funnel, tape, calls, again, model.calls - calls)
