"""Skills to Harbor tasks through the real command, Dagster, PostgreSQL and Docker, with a model made by hand."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from facet_dagster.adapters.tape import Tape
from facet_dagster.connect import dagster_environment
from facet_dagster.settings import load_settings
from tests.e2e.conftest import HOW, REGENERATE, REPAIRS, SEEDS, SKILLS, TAPE, Installation, Live, ingest, installation

pytestmark = [pytest.mark.docker, pytest.mark.postgres]


def seeds_by_fate(home: Installation) -> dict[str, dict[str, Any]]:
    """Fate -> the story of its seed."""
    found = {}
    for key in {line["key"] for line in home.json("seeds", "--batch", "e2e")}:
        story = home.json("why", key)
        names = {skill["name"] for skill in story["skills"]}
        marks = {_text(name).rpartition("Case: ")[2].rstrip(".\n") for name in names}
        assert len(marks) == 1, names
        found[marks.pop()] = story
    return found


def _text(name: str) -> str:
    return next(path.read_text() for folder in (SKILLS, REPAIRS) for path in folder.glob(f"{name}/SKILL.md"))


@pytest.fixture(scope="module")
def stories(live: Live) -> dict[str, dict[str, Any]]:
    return seeds_by_fate(live.installation)


def test_the_funnel_counts_every_stage(live: Live) -> None:
    counts = live.funnel["counts"]
    assert counts["collected"] == counts["skills"] == 20
    assert (counts["candidates"], counts["accepted_candidates"]) == (11, 9)
    assert (counts["seeds"], counts["first_builds"]) == (9, 9)
    assert (counts["first_build_ok"], counts["environment_repaired"], counts["environments"]) == (7, 1, 8)
    assert (counts["entering_validation"], counts["first_pass_valid"]) == (8, 2)
    assert (counts["task_repaired"], counts["validated"], counts["certified"]) == (4, 6, 6)


def test_losses_have_reasons(live: Live) -> None:
    losses = {row["name"]: row["losses"] for row in live.funnel["rows"]}
    assert losses["environments"] == {"environment.repair_exhausted": 1}
    assert losses["validated"] == {"task.infeasible": 1, "task.repair_exhausted": 1}
    assert losses["accepted_candidates"] == {"seed.refused_by_judge": 2}


def test_a_second_run_pays_and_computes_nothing(live: Live) -> None:
    assert live.calls_again <= 1  # the probe
    assert live.again["counts"] == live.funnel["counts"]


def test_why_names_stage_reason_component_and_skills(stories: dict[str, dict[str, Any]]) -> None:
    story = stories["lost-task"]
    assert (story["stage"], story["reason"], story["component"]) == ("task", "task.repair_exhausted", "solution")
    assert {skill["licence"] for skill in story["skills"]} == {"Apache-2.0"}
    assert all(skill["origin"].endswith("SKILL.md") for skill in story["skills"])


@pytest.mark.parametrize(
    ("fate", "component"),
    [
        ("task-repair", "solution"),
        ("verifier-repair", "verifier"),
        ("instruction-repair", "instruction"),
        ("fixture-repair", "environment"),
    ],
)
def test_each_component_is_repaired_and_named(stories: dict[str, dict[str, Any]], fate: str, component: str) -> None:
    story = stories[fate]
    assert (story["verdict"], story["stage"]) == ("accepted", "certificate")
    repairs = [attempt for attempt in story["attempts"] if attempt["kind"] == "repair"]
    assert [(attempt["component"], attempt["ok"]) for attempt in repairs] == [(component, True)]


def test_an_infeasible_task_ends_at_once(stories: dict[str, dict[str, Any]]) -> None:
    story = stories["infeasible"]
    assert (story["stage"], story["reason"]) == ("task", "task.infeasible")
    assert len([attempt for attempt in story["attempts"] if attempt["kind"] == "repair"]) == 1


def test_a_lost_environment_shows_every_attempt(stories: dict[str, dict[str, Any]]) -> None:
    story = stories["lost-build"]
    assert (story["stage"], story["reason"]) == ("environment", "environment.repair_exhausted")
    builds = [attempt for attempt in story["attempts"] if attempt["kind"] == "build"]
    assert [attempt["round"] for attempt in builds] == [0, 1, 2, 3]
    assert not any(attempt["ok"] for attempt in builds)


def test_lineage_goes_back_to_the_sources(stories: dict[str, dict[str, Any]]) -> None:
    kinds = {edge[3] for edge in stories["valid"]["ancestors"]}
    assert {"candidate", "skill", "source"} <= kinds


def test_trials_of_a_certified_task_are_all_there(stories: dict[str, dict[str, Any]]) -> None:
    trials = stories["valid"]["trials"]
    whole = sorted((t["kind"], t["reward"]) for t in trials if "/" not in t["kind"])
    assert whole == [("baseline", 0)] * 3 + [("oracle", 1)] * 4
    probes = {t["kind"].partition("/")[0] for t in trials if "/" in t["kind"] and t["stage"] == "certificate"}
    assert {"twice", "partial", "attack"} <= probes


def test_exported_packages_are_whole(live: Live, tmp_path: Path) -> None:
    live.installation.json("export", "harbor", str(tmp_path))
    folders = sorted(path.parent for path in tmp_path.glob("*/task.toml"))
    refused = json.loads((tmp_path / "manifest.json").read_text())["refused"]
    # The handmade model writes nearly the same task for every pair.
    assert {one["reason"] for one in refused} == {"near duplicate"}
    assert len({*(path.name for path in folders), *(one["task"] for one in refused)}) == 6
    assert folders
    for folder in folders:
        names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
        assert {
            "task.toml",
            "certificate.json",
            "instruction.md",
            "environment/Dockerfile",
            "solution/solve.sh",
            "tests/test.sh",
        } <= names


def test_the_key_stands_nowhere(live: Live, tmp_path: Path) -> None:
    secret = live.installation.settings["FACET_API_KEY"].encode()
    live.installation.json("export", "harbor", str(tmp_path))
    assert secret not in live.tape.read_bytes()
    for folder in (tmp_path, live.installation.home):
        for path in folder.rglob("*"):
            assert not path.is_file() or secret not in path.read_bytes(), path


def test_counters_of_model_calls_stand_on_the_asset(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in live.installation.environment().items():
        if name.startswith("FACET_"):
            monkeypatch.setenv(name, value)
    for name, value in dagster_environment(load_settings(), os.environ).items():
        monkeypatch.setenv(name, value)
    with dg.DagsterInstance.get() as instance:
        found = instance.fetch_observations(dg.AssetKey("task_draft"), limit=10).records
    seen = [{k: v.value for k, v in r.asset_observation.metadata.items()} for r in found if r.asset_observation]
    numbers = [one for one in seen if "llm/calls" in one]  # the others tell what came of the partitions
    assert {"llm/calls", "llm/hits", "llm/retries", "llm/waited", "llm/malformed"} <= set(numbers[-1])
    assert sum(number["llm/calls"] for number in numbers) == sum(
        line["calls"] for line in live.installation.json("cost")["stages"] if line["name"] == "task_draft"
    )


def test_recording_where_stages_are_settled_is_refused(live: Live, tmp_path: Path) -> None:
    done = live.installation.call("tape", "record", str(tmp_path / "new.jsonl"))
    assert done.returncode == 1
    assert "record in a new installation" in " ".join(done.stderr.split())


def test_the_shipped_tape_is_what_was_recorded(live: Live) -> None:
    shipped, recorded = Tape.load(TAPE), Tape.load(live.tape)
    assert shipped.meta.how == HOW
    same = {key: entry.reply for key, entry in shipped.replies.items()} == {
        key: entry.reply for key, entry in recorded.replies.items()
    }
    assert same, f"prompts, schemas or the handmade model changed: run this file once with {REGENERATE}=1"


def test_the_shipped_tape_replays_on_another_base_with_other_vectors(live: Live) -> None:
    settings = {
        "FACET_TAPE": str(TAPE),
        "FACET_BASE_IMAGE": "python:3.13-slim-trixie",
        "FACET_EMBEDDER_DTYPE": "float32",
        "FACET_NEIGHBOURS": "1",
        "FACET_TASK_REPAIRS": "2",
    }
    for home in installation(**settings):
        ingest(home)
        assert home.json("run", "--batch", "e2e", "--seeds", SEEDS)["counts"] == live.funnel["counts"]
        # A seed's key begins with the day, which the tape holds.
        ours, theirs = ({line["key"][7:] for line in i.json("tasks")} for i in (home, live.installation))
        assert ours == theirs


def test_a_replay_gives_the_packages_of_the_recorded_run_bit_by_bit(live: Live) -> None:
    settings = {"FACET_NEIGHBOURS": "1", "FACET_TASK_REPAIRS": "2"}
    for home in installation(**settings):
        ingest(home)
        done = home.call("tape", "replay", str(live.tape), "--batch", "e2e", "--seeds", SEEDS)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        ours, theirs = ({t["key"]: t["package"] for t in i.json("tasks")} for i in (home, live.installation))
        assert ours == theirs
        assert len(ours) == 6


def test_a_stale_tape_names_the_call_and_fails(tmp_path: Path) -> None:
    stale = tmp_path / "stale.jsonl"
    rows = [json.loads(row) for row in TAPE.read_text().splitlines()]
    for row in rows:
        if row["kind"] == "reply" and row["call"] == "references":
            row["template"] = "0" * 64
    stale.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for home in installation(FACET_TAPE=str(stale), FACET_NEIGHBOURS="1"):
        ingest(home)
        done = home.call("run", "--batch", "e2e", "--seeds", SEEDS)
        assert done.returncode == 1
        assert "references" in done.stdout + done.stderr


def test_the_tape_says_how_it_was_made(live: Live) -> None:
    meta = Tape.load(live.tape).meta
    assert meta.model == "openai/handmade"
    assert meta.made
