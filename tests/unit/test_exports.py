"""Exports: what stays behind and why, what stands in manifest, rows and card, and that half of one never shows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import polars as pl
import pytest
import yaml

from facet_dagster.adapters.memory import HashEmbedder, MemoryArtifactStore, MemoryLedger
from facet_dagster.domain.archive import pack
from facet_dagster.domain.facts import DatasetFact, EdgeFact, SeedFact, SkillFact
from facet_dagster.domain.outcome import Verdict
from facet_dagster.domain.rollout import Attempt, Rollouts, Trajectories
from facet_dagster.domain.task import Task, Validation
from facet_dagster.errors import ConfigError
from facet_dagster.funnel import Compute, Outcome, Stage, plan, run_stage
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.pipeline.rollouts import protocol_of, rollout_stages
from facet_dagster.reports.datasets import Kind, dataset
from facet_dagster.reports.exports import harbor_set
from facet_dagster.reports.versions import new_version
from facet_dagster.settings import Settings
from facet_dagster.stages.rollout import conversation, judge
from tests.fixtures import task_example as example

GOOD = Validation(round=0, baseline=None, oracle=None, rejection=None)
COUNTER = "counter"


def words(mark: str, count: int = 40) -> str:
    """A text of its own."""
    return " ".join(f"{mark}{n}" for n in range(count))


class World:
    """Certified tasks with skills of their own, and one attempt on each: ``missed`` checks of three, or solved."""

    def __init__(self, home: Path, keys: Sequence[str] = ("260101-a", "260101-b", "260101-c"), **more: Any) -> None:
        self.settings = Settings(home=home, **more)
        self.ledger, self.store, self.keys = MemoryLedger(), MemoryArtifactStore(), list(keys)
        self.texts = {key: {"instruction.md": words(f"i{key}"), "solution/solve.sh": words(f"s{key}")} for key in keys}
        self.licences: dict[str, str] = {}
        self.missed = dict.fromkeys(keys, 0)

    def skills(self, key: str) -> tuple[str, str]:
        return f"{key}-1", f"{key}-2"

    def fill(self) -> World:
        for key in self.keys:
            first, second = self.skills(key)
            self.ledger.append(
                [
                    SeedFact(
                        key=key, batch="b", candidate="c", first=first, second=second, scenario="s", families=["data"]
                    ),
                    *(self.skill(ident) for ident in (first, second)),
                ]
            )
        graph = seed_stages(self.settings)
        for stage in graph:
            self.carry(stage, lambda key, name=stage.name: self.value(name, key))  # type: ignore[misc]
        for stage in rollout_stages(self.settings, COUNTER):
            self.carry(stage, lambda key, name=stage.name: self.value(name, key))  # type: ignore[misc]
        return self

    def skill(self, ident: str) -> SkillFact:
        licence = self.licences.get(ident, "MIT")
        more: dict[str, Any] = {"bucket": "00", "name": ident, "origin": "o", "verdict": Verdict.ACCEPTED}
        return SkillFact(skill=ident, version="1", licence=licence, **more)

    def value(self, stage: str, key: str) -> Outcome:
        task = Task(seed=key, title=key, draft=example.draft(), environment=example.environment(), validations=(GOOD,))
        if stage in ("rollouts", "trajectories"):
            return Outcome(self.rollouts(key) if stage == "rollouts" else self.judged(key))
        values = {
            "seed": example.SEED,
            "scenario": example.SCENARIO,
            "first_build": task.environment,
            "environment": task.environment,
            "task_draft": task.draft,
            "first_validation": task,
            "task": task,
        }
        if stage in values:
            return Outcome(values[stage])
        package = {"tests/checks.py": words(f"t{key}"), "task.toml": "", **self.texts[key]}
        sha = self.store.put(pack({path: text.encode() for path, text in package.items()}))
        return Outcome(example.CERTIFIED.model_copy(update={"seed": key, "package": sha}))

    def rollouts(self, key: str) -> Rollouts:
        checks = [
            {"id": f"C{n}", "requirement": "R1", "status": "fail" if n < self.missed[key] else "pass"} for n in range(3)
        ]
        attempt = Attempt.model_validate(
            {
                "number": 1, "trial": "t", "reward": int(not self.missed[key]), "checks": checks, "turns": 1,
                "commands": 1, "prompt_tokens": 1, "completion_tokens": 1, "cost": None, "seconds": 1.0, "error": "",
                "trajectory": self.store.put(trajectory(key)),
            }
        )  # fmt: skip
        return Rollouts(seed=key, package="p", protocol=protocol_of(self.settings), attempts=(attempt,))

    def judged(self, key: str) -> Trajectories:
        attempt = self.rollouts(key).attempts[0]
        one = judge(attempt, conversation(self.store.get(attempt.trajectory)), len, longest=10_000)
        more: dict[str, Any] = {"tokenizer": COUNTER, "longest": 10_000, "judged": (one,)}
        return Trajectories(seed=key, package="p", protocol=protocol_of(self.settings), **more)

    def carry(self, stage: Stage, compute: Compute) -> None:
        work = plan(stage, self.keys, self.ledger).work
        run_stage(stage.name, work, compute, ledger=self.ledger, store=self.store, emit=lambda _: None)

    def export(self, kind: Kind, folder: Path, **more: Any) -> dict[str, Any]:
        return dataset(kind, folder, self.settings, COUNTER, self.ledger, self.store, **more)

    def harbor(self, folder: Path, **more: Any) -> dict[str, Any]:
        return harbor_set(folder, self.settings, self.ledger, self.store, **more).model_dump(mode="json")


def trajectory(key: str) -> bytes:
    done = json.dumps({"commands": [{"keystrokes": "ls\n"}], "task_complete": True})
    steps = [{"source": "user", "message": f"Do {key}."}, {"source": "agent", "message": done}]
    return json.dumps({"schema_version": "ATIF-v1.8", "steps": steps}).encode()


def whole(folder: Path) -> dict[str, Any]:
    """The manifest of a folder of which every file is as its sums say, and whose rows fit their schema."""
    sums = dict(reversed(line.split("  ")) for line in (folder / "SHA256SUMS").read_text().splitlines())
    paths = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert paths == {*sums, "SHA256SUMS"}
    assert all(hashlib.sha256((folder / name).read_bytes()).hexdigest() == sha for name, sha in sums.items())
    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    jsonschema.validate(manifest, json.loads((folder / "schema" / "manifest.json").read_text()))
    schema = json.loads((folder / "schema" / "row.json").read_text())
    for path in (folder / "data").glob("*.jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for row in rows:
            jsonschema.validate(row, schema)
        assert pl.read_parquet(path.with_suffix(".parquet")).to_dicts() == rows
    return manifest


def test_a_training_set_is_whole_and_says_how_it_came_to_be(tmp_path: Path) -> None:
    world = World(tmp_path).fill()
    made = world.export("sft", tmp_path / "sft")
    assert whole(tmp_path / "sft") == made
    assert (made["rows"], made["tasks"], made["left_out"]) == (3, 3, {})
    assert made["contamination"]["looked"] is False
    header, card = (tmp_path / "sft" / "README.md").read_text().split("---\n")[1:3]
    assert yaml.safe_load(header)["license"] == ["mit"]
    assert yaml.safe_load(header)["configs"][0]["data_files"] == [{"split": "train", "path": "data/train-*.parquet"}]
    assert "Compared with no benchmark" in card
    row = json.loads((tmp_path / "sft" / "data" / "train-00000-of-00001.jsonl").read_text().splitlines()[0])
    assert [m["role"] == "assistant" for m in row["messages"]] == row["train"]
    assert [turn["from"] for turn in row["conversations"]] == ["human", "gpt"]


def test_a_dataset_is_in_the_ledger_with_what_it_was_made_from(tmp_path: Path) -> None:
    world = World(tmp_path).fill()
    made = world.export("sft", tmp_path / "sft")
    fact = world.ledger.find(DatasetFact)[0]
    assert (fact.kind, fact.version, fact.rows) == ("sft", made["version"], 3)
    assert json.loads(world.store.get(fact.manifest)) == made
    parents = {edge.parent for edge in world.ledger.find(EdgeFact, child=f"dataset:{made['version']}")}
    assert parents == {hashlib.sha256(trajectory(key)).hexdigest() for key in world.keys}


def test_equal_rows_are_one_version(tmp_path: Path) -> None:
    world = World(tmp_path).fill()
    args = ("sft", world.settings, COUNTER, world.ledger, world.store, HashEmbedder())
    first, made = new_version(*args)
    again, _ = new_version(*args)
    assert (first, first.name) == (again, made["version"][:16])
    assert [path.name for path in first.parent.iterdir()] == [first.name]
    assert len(world.ledger.find(DatasetFact)) == 1
    whole(first)


def test_near_misses_carry_their_checks(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.missed["260101-b"] = 2
    world.missed["260101-c"] = 3
    made = world.fill().export("near-miss", tmp_path / "near")
    assert whole(tmp_path / "near") == made
    row = json.loads((tmp_path / "near" / "data" / "train-00000-of-00001.jsonl").read_text())
    assert (row["task"], row["missed"], round(row["check_reward"], 2)) == ("260101-b", 2, 0.33)
    assert {check["status"] for check in row["checks"]} == {"pass", "fail"}


def test_a_task_set_holds_packages_and_a_row_for_each(tmp_path: Path) -> None:
    world = World(tmp_path, held_out=0.34).fill()
    made = world.harbor(tmp_path / "set")
    assert whole(tmp_path / "set") == made
    assert {path.parent.name for path in (tmp_path / "set").glob("*/task.toml")} == set(world.keys)
    assert (len(made["splits"]["train"]), len(made["splits"]["held_out"])) == (2, 1)
    out = pl.read_parquet(tmp_path / "set" / "data" / "held_out-00000-of-00001.parquet")
    assert out["task"].to_list() == made["splits"]["held_out"]
    assert out["instruction"][0] == world.texts[out["task"][0]]["instruction.md"]


@pytest.mark.parametrize(
    ("path", "part"),
    [("instruction.md", "instruction"), ("solution/solve.sh", "solution"), ("tests/checks.py", "tests")],
)
def test_of_two_near_copies_one_is_kept_and_named(tmp_path: Path, path: str, part: str) -> None:
    world = World(tmp_path)
    world.texts["260101-a"][path] = words("same")
    world.texts["260101-c"][path] = words("same") + " and more"
    made = world.fill().harbor(tmp_path / "set")
    refused = made["refused"][0]
    assert (refused["task"], refused["reason"], refused["evidence"]["of"]) == ("260101-c", "near duplicate", "260101-a")
    assert f"its {part} repeats that of 260101-a, which is kept" in refused["what"]
    assert refused["evidence"]["similarity"] >= 0.8
    assert made["tasks"] == 2
    rows = world.export("sft", tmp_path / "sft")
    assert (rows["rows"], rows["left_out"]["an attempt on a task that is left out"]) == (2, 1)


def test_whoever_is_named_is_kept_also_through_another_part(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.texts["260101-b"]["solution/solve.sh"] = world.texts["260101-a"]["solution/solve.sh"]
    world.texts["260101-c"]["instruction.md"] = world.texts["260101-b"]["instruction.md"]
    made = world.fill().harbor(tmp_path / "set")
    assert {one["task"]: one["evidence"]["of"] for one in made["refused"]} == {
        "260101-b": "260101-a",
        "260101-c": "260101-a",
    }


@pytest.mark.parametrize("how", ["words", "meaning"])
def test_what_repeats_a_benchmark_stays_behind_with_the_evidence(tmp_path: Path, how: str) -> None:
    world = World(tmp_path / "home", export_benchmarks=tmp_path / "bench")
    # Five words are no run that is looked for: only the embedding is left.
    world.texts["260101-b"]["instruction.md"] = words("bench", 40 if how == "words" else 5)
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "list.txt").write_text(words("bench", 30 if how == "words" else 5) + "\n")
    made = world.fill().harbor(tmp_path / "set", embedder=HashEmbedder())
    assert [(one["task"], one["reason"]) for one in made["refused"]] == [("260101-b", "contaminated")]
    report = made["contamination"]
    assert (report["looked"], report["items"], report["tasks"]) == (True, 1, 3)
    assert (how, "list.txt:1") in [(match["how"], match["benchmark"]) for match in report["matches"]]
    assert not (tmp_path / "set" / "260101-b").exists()
    assert "1 were left out" in (tmp_path / "set" / "README.md").read_text()


def test_a_licence_that_is_not_allowed_any_more_keeps_its_tasks_back(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.licences["260101-a-2"] = "GPL-3.0"
    made = world.fill().harbor(tmp_path / "set")
    assert [(one["task"], one["reason"]) for one in made["refused"]] == [("260101-a", "licence")]
    assert "GPL-3.0" in made["refused"][0]["what"]


def test_a_policy_that_forbids_everything_is_a_refusal_that_counts(tmp_path: Path) -> None:
    world = World(tmp_path, licences=("Apache-2.0",)).fill()
    with pytest.raises(ConfigError, match="3 left out by licence"):
        world.harbor(tmp_path / "set")
    with pytest.raises(ConfigError, match="3 left out by licence"):
        world.export("sft", tmp_path / "sft")
    assert not list(tmp_path.iterdir())


def test_an_export_of_no_rows_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    world = World(tmp_path).fill()
    with pytest.raises(ConfigError, match="There is no row for near-miss"):
        world.export("near-miss", tmp_path / "near")
    with pytest.raises(ConfigError, match="There is no certified task"):
        world.harbor(tmp_path / "set", batch="another")
    assert not list(tmp_path.iterdir())


def test_an_export_that_breaks_off_leaves_the_older_one_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path).fill()
    world.export("sft", tmp_path / "sft")
    before = whole(tmp_path / "sft")
    monkeypatch.setattr(pl.DataFrame, "write_parquet", _no_space)
    with pytest.raises(OSError, match="No space"):
        world.export("sft", tmp_path / "sft")
    assert whole(tmp_path / "sft") == before
    assert [path.name for path in tmp_path.iterdir()] == ["sft"]


def _no_space(*_: Any, **__: Any) -> None:
    raise OSError("No space left on device")


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    world = World(tmp_path).fill()
    (tmp_path / "set" / "260101-a").mkdir(parents=True)
    world.harbor(tmp_path / "set")  # packages that an older version exported
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("mine")
    for write in (world.harbor, lambda folder: world.export("sft", folder)):
        with pytest.raises(ConfigError, match="name another folder"):
            write(tmp_path / "other")
    assert (tmp_path / "other" / "thesis.txt").read_text() == "mine"
