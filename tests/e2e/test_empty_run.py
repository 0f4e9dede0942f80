"""Runs that give nothing say so and fail: no key, no endpoint, nothing accepted; and what was withdrawn is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from facet_dagster.connect import open_ledger
from facet_dagster.domain.facts import SeedFact
from facet_dagster.settings import load_settings
from tests.e2e.conftest import Installation, installation

pytestmark = [pytest.mark.docker, pytest.mark.postgres]

FORBIDDEN = """\
---
name: private-notes
description: Sum a table of notes by region and write the sums to a file.
license: Proprietary. All rights reserved.
---

# Private notes

1. Read the table.
2. Sum the notes by region, and write the sums to a file, one line a region.
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An installation whose only skill may not be used."""
    skills = tmp_path_factory.mktemp("skills")
    (skills / "private-notes").mkdir()
    (skills / "private-notes" / "SKILL.md").write_text(FORBIDDEN)
    for made in installation():
        assert made.json("ingest", str(skills))["outcomes"] == {"skill.licence": 1}
        yield made


def test_a_run_without_any_pair_fails_and_says_so(home: Installation) -> None:
    done = home.call("run", "--batch", "demo", "--until", "seed")  # the tape knows the day of this batch
    assert done.returncode == 1
    assert "Batch demo holds no seed" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "set OPENAI_API_KEY"),
        ({"FACET_API_BASE": "http://127.0.0.1:1/v1"}, "cannot be reached at http://127.0.0.1:1/v1"),
    ],
    ids=["no key", "no endpoint"],
)
def test_a_run_without_a_model_that_answers_fails_before_its_first_stage(
    home: Installation, settings: dict[str, str], said: str
) -> None:
    done = home.call("run", "--batch", "empty", FACET_MODEL="openai/m", OPENAI_API_KEY="", **settings)
    assert done.returncode == 1
    assert said in " ".join((done.stdout + done.stderr).split())
    assert "computed" not in done.stdout


def test_stages_that_ask_no_model_run_without_one(home: Installation) -> None:
    done = home.call("run", "--until", "skill_index", FACET_MODEL="openai/m", FACET_API_BASE="http://127.0.0.1:1/v1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skill_index" in done.stdout
    assert "scenario_hypotheses" not in done.stdout


def test_a_stage_that_there_is_not_is_named(home: Installation) -> None:
    done = home.call("run", "--until", "skil")
    assert done.returncode != 0
    assert "There is no stage 'skil': name one of skills, skill_index," in done.stderr.replace("\n", " ")


def test_an_export_names_packages_that_are_not_certified_any_more(
    home: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FACET_HOME", str(home.home))
    lost = SeedFact(key="260101-lost", batch="b", candidate="c", first="a", second="b", scenario="s", families=[])
    open_ledger(load_settings()).append([lost])
    for name in (lost.key, "of-somebody-else"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "task.toml").touch()
    done = home.call("export", "harbor", str(tmp_path))
    assert f"{tmp_path / lost.key} was exported before and is not certified any more" in done.stderr.replace("\n", "")
    assert "of-somebody-else" not in done.stderr
