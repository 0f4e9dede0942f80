"""`facet evaluate` under the real Harbor: two endpoints compared, and an evaluation that was killed and run again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from facet_dagster.adapters.postgres_ledger import PostgresLedger
from facet_dagster.domain.facts import AttemptFact
from facet_dagster.settings import load_settings
from tests.fixtures.agent_model import AgentModel, act
from tests.fixtures.benchmark_tasks import RIGHT, WRONG, write_benchmark

pytestmark = [pytest.mark.harbor, pytest.mark.docker, pytest.mark.postgres, pytest.mark.timeout(1200)]


SLOW = json.dumps(json.loads(act()) | {"commands": [{"keystrokes": "sleep 60\n", "duration": 60}]})


class Installation:
    """A home with Harbor in it, and the command over it."""

    def __init__(self, home: Path, url: str) -> None:
        record = load_settings().home / "harbor.json"
        assert record.is_file(), "Harbor is not set up: run `make verify-harbor`, or deselect the marker `harbor`"
        home.mkdir()
        shutil.copy(record, home)
        self.home = home
        self.env = {**os.environ, "FACET_HOME": str(home), "FACET_POSTGRES_URL": url}

    def start(self, file: Path, *more: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "facet_dagster.cli", "evaluate", str(file), "--json", *more]
        return subprocess.Popen(argv, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, file: Path, *more: str) -> dict[str, Any]:
        process = self.start(file, *more)
        told, errors = process.communicate()
        assert process.returncode == 0, errors[-3000:]
        found: dict[str, Any] = json.loads(told)
        return found


@pytest.fixture
def installation(tmp_path: Path, ledger_url: str) -> Installation:
    return Installation(tmp_path / "home", ledger_url)


def write(folder: Path, seconds: int, **endpoints: str) -> Path:
    text = "\n".join(f"  {name}: {{model: openai/same, api_base: '{base}'}}" for name, base in endpoints.items())
    file = folder / "evaluation.yaml"
    file.write_text(f"benchmark: tasks\nattempts: 1\nmax_turns: 6\nseconds: {seconds}\nendpoints:\n{text}\n")
    return file


def test_two_endpoints_are_compared_on_the_same_tasks(installation: Installation, tmp_path: Path) -> None:
    write_benchmark(tmp_path / "tasks", ["one", "two"])
    with (
        AgentModel({"one": WRONG, "two": WRONG}) as base,
        AgentModel({"one": RIGHT, "two": WRONG}) as tuned,
    ):
        file = write(tmp_path, 300, base=base.api_base, tuned=tuned.api_base)
        found = installation.run(file)
        asked = base.calls, tuned.calls
        assert installation.run(file) == found, "nothing is made again"
        assert (base.calls, tuned.calls) == asked
    assert [line["rewards"] for line in found["endpoints"]] == [{"one": [0], "two": [0]}, {"one": [1], "two": [0]}]
    assert found["pairs"][0]["difference"]["difference"] == 0.5
    assert found["endpoints"][0]["protocol"]["seconds"] == 300
    assert found["complete"]


def test_an_attempt_ends_at_the_limit_of_the_file_and_is_judged(
    installation: Installation, tmp_path: Path, ledger_url: str
) -> None:
    """The package allows a minute and more; the file 20 seconds."""
    write_benchmark(tmp_path / "tasks", ["late"])
    with AgentModel({"late": [SLOW]}) as model:
        found = installation.run(write(tmp_path, 20, it=model.api_base))
    assert found["endpoints"][0]["rewards"] == {"late": [0]}
    assert ["AgentTimeoutError" in fact.summary and "20" in fact.summary for fact in facts(ledger_url)] == [True]


def test_a_killed_evaluation_makes_only_the_trials_again_that_were_in_flight(
    installation: Installation, tmp_path: Path, ledger_url: str
) -> None:
    write_benchmark(tmp_path / "tasks", ["quick", "slow"])
    with AgentModel({"quick": RIGHT, "slow": [SLOW]}) as model:
        process = installation.start(write(tmp_path, 300, it=model.api_base))
        wait(lambda: len(attempts(ledger_url)) == 1 or process.poll() is not None)
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.communicate()
    wait(lambda: not harbor_of(installation.home), "the orphan is interrupted, and removes its containers")
    assert set(attempts(ledger_url)) == {"quick"}
    with AgentModel({"quick": WRONG, "slow": RIGHT}) as model:
        found = installation.run(write(tmp_path, 300, it=model.api_base))
        assert model.calls == len(RIGHT), "the quick task is not tried again"
    assert found["endpoints"][0]["rewards"] == {"quick": [1], "slow": [1]}


def attempts(url: str) -> list[str]:
    return [fact.key for fact in facts(url)]


def facts(url: str) -> list[AttemptFact]:
    ledger = PostgresLedger(url)
    try:
        return ledger.find(AttemptFact, stage="evaluation")
    finally:
        ledger.close()


def harbor_of(home: Path) -> list[str]:
    """Command lines of Harbor processes over this home."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        found += [line] if str(home / "jobs") in line else []
    return found


def wait(true: Callable[[], bool], why: str = "it takes too long", seconds: float = 400) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, why
        time.sleep(0.5)
