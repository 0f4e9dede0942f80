"""Nights through the real command: killed and resumed, then one with nothing new, which makes nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from facet_dagster.connect import open_ledger
from facet_dagster.domain.facts import ModelCallFact, SeedFact, StageFact
from facet_dagster.ports import Ledger
from facet_dagster.reports.nights import nights
from facet_dagster.settings import Settings
from tests.e2e.conftest import FACET, REPAIRS, SEEDS, SKILLS, TAPE, Installation, installation

pytestmark = [pytest.mark.docker, pytest.mark.postgres, pytest.mark.timeout(3000)]


@dataclass
class Story:
    """``first`` is the night that took up the killed one ``e2e``, ``second`` the one after it."""

    home: Installation
    sources: Path
    first: dict[str, Any]
    second: dict[str, Any]
    files: dict[str, bytes]
    facts: tuple[int, int]

    def ledger(self) -> Ledger:
        return open_ledger(Settings(home=self.home.home))


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    sources = tmp_path_factory.mktemp("sources") / "sources.yaml"
    sources.write_text(f"sources:\n  - folder: {SKILLS}\n  - folder: {REPAIRS}\n")
    settings = {
        "FACET_TAPE": str(TAPE),
        "FACET_NEIGHBOURS": "1",
        "FACET_TASK_REPAIRS": "2",
        "FACET_SOURCES": str(sources),
        "FACET_NIGHT_SEEDS": SEEDS,
        "FACET_NIGHT_REPLAYS": "2",
    }
    for home in installation(**settings):
        told = Story(home, sources, {}, {}, {}, (0, 0))
        _kill_a_night(told)
        told.first = home.json("night", "--batch", "next")
        told.files = _files(told)
        told.facts = _facts(told)
        told.second = home.json("night", "--batch", "later")
        yield told


def _kill_a_night(told: Story) -> None:
    """Once the first environments are there, with the whole process group."""
    process = subprocess.Popen(
        [str(FACET), "night", "--batch", "e2e", "--json"],
        env=told.home.environment(),
        cwd=told.home.home,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while not (told.home.home / "postgres").exists():
        assert process.poll() is None
        time.sleep(0.5)
    ledger = told.ledger()
    while not ledger.values(StageFact, "key", stage="first_build"):
        assert process.poll() is None, "the night was over before it could be killed"
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


def _files(told: Story) -> dict[str, bytes]:
    folder = told.home.home / "releases"
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _facts(told: Story) -> tuple[int, int]:
    ledger = told.ledger()
    return len(ledger.find(StageFact)), len(ledger.find(ModelCallFact))


def test_a_killed_night_is_carried_on_by_the_next_one(story: Story) -> None:
    first = story.first
    assert (first["state"], first["carried"], first["said"]) == ("done", ["e2e"], [])
    assert nights(story.ledger())["e2e"] == "done"
    stages = {stage["stage"]: stage for stage in first["stages"]}
    assert stages["certificate"]["settled"] == 9
    assert stages["first_build"]["cached"] >= 1  # what the killed one had settled
    assert len(story.ledger().find(SeedFact)) == 9


def test_no_stage_of_a_killed_night_is_computed_twice(story: Story) -> None:
    facts = [(fact.stage, fact.key) for fact in story.ledger().find(StageFact) if fact.stage != "seed_selection"]
    assert len(facts) == len(set(facts))


def test_its_release_holds_the_certified_tasks_and_says_that_they_are_new(story: Story) -> None:
    made = story.first["release"]
    tasks = story.home.json("tasks")
    assert made["written"]
    assert made["diff"]["new"] == [task["key"] for task in tasks]
    assert len(tasks) == 6
    folder = Path(made["folder"])
    assert sorted(path.name for path in (folder / "tasks").iterdir()) == made["diff"]["new"]
    manifest = json.loads((folder / "manifest.json").read_text())
    assert {key: task["package"] for key, task in manifest["tasks"].items()} == {t["key"]: t["package"] for t in tasks}
    assert manifest["yields"]["batch"] == "e2e"


def test_a_night_with_nothing_new_makes_nothing(story: Story) -> None:
    second = story.second
    assert (second["state"], second["said"], second["stages"]) == ("done", [], [])
    assert (second["new_skills"], second["minted"], second["sources"]["unchanged"]) == (0, 0, 2)
    assert _facts(story) == story.facts
    made = second["release"]
    assert not made["written"]
    assert made["diff"] == {"new": [], "changed": [], "lost": {}, "training": False}
    assert made["name"] == story.first["release"]["name"]
    assert _files(story) == story.files


def test_it_replays_released_tasks_that_stand(story: Story) -> None:
    lines = story.second["health"]["lines"]
    assert len(lines) == 2
    assert all((line["replay"]["baseline"], line["replay"]["oracle"]) == (0, 1) for line in lines)


def test_a_night_while_another_is_at_work_begins_nothing(story: Story) -> None:
    before = nights(story.ledger())
    with story.ledger().claim("night"):
        done = story.home.call("night", "--batch", "overlap")
    assert done.returncode == 0
    assert "Another night is at work" in done.stdout
    assert nights(story.ledger()) == before
