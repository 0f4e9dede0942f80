"""kill -9 at ten moments: the run ends all the same, and pays and computes nothing twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import dagster as dg
import docker
import psutil
import pytest

from facet_dagster.adapters.docker_labels import OWNER
from facet_dagster.adapters.postgres_ledger import PostgresLedger
from facet_dagster.adapters.process_owner import is_dead
from facet_dagster.connect import dagster_environment, open_ledger
from facet_dagster.domain.facts import StageFact
from facet_dagster.settings import load_settings
from tests.e2e.conftest import FACET, SKILLS, Installation, installation
from tests.fixtures import task_example as example
from tests.fixtures.handmade_model import ANSWERS, HandmadeModel

pytestmark = [pytest.mark.docker, pytest.mark.postgres]

KILLS = 10
RUN = ("run", "--batch", "killed", "--seeds", "5", "--json")
PROBE = "Answer with exactly this JSON"
# An answer that left less than this before a kill may not have been stored yet.
IN_FLIGHT_SECONDS = 2.0


@dataclass
class Story:
    """``kills`` are moments (monotonic seconds), ``counts`` the finished funnel."""

    home: Installation
    model: HandmadeModel
    kills: list[float] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    chance = random.Random("moments")
    with HandmadeModel(seconds=0.3) as model:
        settings = {
            "FACET_MODEL": "openai/handmade",
            "FACET_API_BASE": model.api_base,
            "FACET_API_KEY": "sk-none",
            "FACET_NEIGHBOURS": "1",
            "FACET_TASK_REPAIRS": "2",
        }
        for home in installation(**settings):
            told = Story(home, model)
            home.json("ingest", str(SKILLS))
            while len(told.kills) < KILLS:
                _run_and_kill(told, after=chance.uniform(3, 14))
            told.counts = home.json(*RUN[:-1])["counts"]
            yield told


def _run_and_kill(told: Story, after: float) -> None:
    """Even kills hit the whole process group, odd ones the command alone, which takes its run with it."""
    process = subprocess.Popen(
        [str(FACET), *RUN],
        env=told.home.environment(),
        cwd=told.home.home,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    time.sleep(after)
    if len(told.kills) % 2:
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGKILL)
    told.kills.append(time.monotonic())
    assert process.wait() == -signal.SIGKILL, "the run was over before it was killed: raise the model's seconds"


def test_the_run_ends_with_the_funnel_of_an_undisturbed_one(story: Story) -> None:
    wanted = {"seeds": 5, "environments": 4, "first_pass_valid": 2, "task_repaired": 1, "certified": 3}
    assert {name: story.counts[name] for name in wanted} == wanted


def test_no_call_is_paid_twice_but_those_in_flight(story: Story) -> None:
    calls = [call for call in story.model.asked if PROBE not in call[0]]
    last = {question: asked for question, asked, _ in calls}
    wasted = [call for call in calls if call[1] < last[call[0]]]
    for question, asked, answered in wasted:
        hit = [kill for kill in story.kills if asked <= kill <= answered + IN_FLIGHT_SECONDS]
        assert hit, f"asked again although the answer came long before a kill: {question[:300]}"
    assert len(last) > 10 * len(wasted) / KILLS


def test_no_stage_result_is_computed_twice(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("FACET_")]:
        monkeypatch.delenv(name)
    for name, value in {"FACET_HOME": str(story.home.home), **story.home.settings}.items():
        monkeypatch.setenv(name, value)
    settings = load_settings()
    ledger = open_ledger(settings)
    facts = Counter((fact.stage, fact.key) for fact in ledger.find(StageFact))
    assert facts
    assert set(facts.values()) == {1}
    for name, value in dagster_environment(settings, os.environ).items():
        monkeypatch.setenv(name, value)
    with dg.DagsterInstance.get() as instance:
        computed = Counter(
            (asset, record.partition_key)
            for asset in {stage for stage, _ in facts}
            for record in instance.fetch_materializations(dg.AssetKey(asset), limit=10_000).records
            if (event := record.asset_materialization) is not None and event.metadata["cached"].value is False
        )
    assert computed
    assert set(computed.values()) == {1}
    if isinstance(ledger, PostgresLedger):
        ledger.close()


def test_nothing_is_left_on_the_engine(story: Story) -> None:
    story.home.json("reap")
    api = docker.from_env().api
    with api:
        left = [c["Labels"][OWNER] for c in api.containers(all=True, filters={"label": OWNER})]
    assert not [owner for owner in left if is_dead(owner)]


def started(home: Installation) -> subprocess.Popen[str]:
    """A run in a session of its own, so that signals reach it and not us."""
    return subprocess.Popen(
        [str(FACET), *RUN[:-1]],
        env=home.environment(),
        cwd=home.home,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def test_an_interrupt_ends_what_is_in_flight_and_keeps_it() -> None:
    """As after Ctrl-C: no answer that was on its way is asked for again."""
    with HandmadeModel(seconds=2.0) as model:
        settings = {"FACET_MODEL": "openai/handmade", "FACET_API_BASE": model.api_base, "FACET_API_KEY": "sk-none"}
        for home in installation(**settings):
            home.json("ingest", str(SKILLS))
            process = started(home)
            while sum(PROBE not in question for question, _, _ in model.asked) < 6:
                assert process.poll() is None
                time.sleep(0.1)
            os.killpg(process.pid, signal.SIGINT)
            said, _ = process.communicate(timeout=60)
            assert process.returncode == 130, said
            assert "Stopped. Run again to go on" in " ".join(said.split())
            model.seconds = 0.0
            home.json("run", "--batch", "killed", "--seeds", "1", "--until", "seed")
            asked = Counter(question for question, _, _ in model.asked if PROBE not in question)
            assert set(asked.values()) == {1}


def test_sigterm_ends_the_trials_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command, and not its child, gets the signal; nothing waits for a program that still has minutes to run."""
    slow = example.as_json(example.solution(example.SOLVE.replace("cd /app\n", "cd /app\nsleep 110\n")))
    monkeypatch.setitem(ANSWERS, "SolutionReply", lambda fate, text: slow)
    with HandmadeModel() as model:
        settings = {"FACET_MODEL": "openai/handmade", "FACET_API_BASE": model.api_base, "FACET_API_KEY": "sk-none"}
        for home in installation(**settings):
            home.json("ingest", str(SKILLS))
            process = started(home)
            with closing(docker.APIClient(version="auto", **docker.utils.kwargs_from_env())) as api:
                while not (trials := _trials(api, process.pid)):
                    assert process.poll() is None
                    time.sleep(0.2)
                process.send_signal(signal.SIGTERM)
                said, _ = process.communicate(timeout=60)
                assert process.returncode == 130, said
                left = api.containers(all=True, filters={"label": f"{OWNER}={trials[0]['Labels'][OWNER]}"})
                assert left == []


def _trials(api: Any, command: int) -> list[Any]:
    """Running oracle trials of a run that ``command`` started."""
    found = api.containers(filters={"label": OWNER})
    return [c for c in found if "solve.sh" in c["Command"] and _parent(c["Labels"][OWNER]) == command]


def _parent(owner: str) -> int:
    try:
        return psutil.Process(int(owner.rsplit(":", 3)[1])).ppid()
    except psutil.NoSuchProcess:
        return 0
