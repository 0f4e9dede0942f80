"""Releases name what changed and never change; health quarantines what rotted, and never for a machine's trouble."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

import pytest

from facet_dagster.adapters.memory import MemoryArtifactStore, MemoryLedger
from facet_dagster.domain.archive import pack
from facet_dagster.domain.facts import AttemptFact, SeedFact
from facet_dagster.errors import ConfigError, SandboxError
from facet_dagster.pipeline.quarantine import quarantine, quarantined
from facet_dagster.ports import Sandbox
from facet_dagster.reports import health as healths
from facet_dagster.reports import nights, release
from facet_dagster.reports.releases import Manifest, Release, Released, releases
from facet_dagster.settings import Settings
from facet_dagster.stages.task.certificate.replay import Replay
from facet_dagster.stages.task.package import Package

PAIR = {"batch": "b", "candidate": "p", "first": "1", "second": "2", "scenario": "s", "families": ["data", "ai"]}


class World:
    """Certified packages by key, as the ledger's current results would tell them."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.settings = Settings(home=folder)
        self.ledger, self.store = MemoryLedger(), MemoryArtifactStore()
        self.certified = dict[str, str]()
        patch.setattr(release, "released", self._released)

    def _released(
        self, _s: object, _l: object, _t: object, last: Manifest | None, refused: Collection[str]
    ) -> dict[str, Released]:
        listed = {key: task(package) for key, package in self.certified.items() if key not in refused}
        gone = sorted(set(last.tasks) - set(listed) - set(refused)) if last else []
        reasons = release.lost(gone, self.settings, self.ledger)
        kept = {key: last.tasks[key] for key in gone if last and key not in reasons}
        return dict(sorted({**listed, **kept}.items()))

    def certify(self, key: str, text: bytes = b"one") -> None:
        self.ledger.append([SeedFact(key=key, **PAIR)])
        self.certified[key] = self.store.put(pack({"task.toml": text}))

    def release(self, day: str = "2026-11-30") -> Release:
        return release.release(self.settings, "t", self.ledger, self.store, day=day)


def task(package: str) -> Released:
    return Released(package=package, title="t", families=("data", "ai"), licences=("MIT",), level="basic")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def test_nothing_certified_is_no_release(world: World) -> None:
    assert not world.release().written
    assert releases(world.settings.releases) == []


def test_new_changed_and_lost_are_told_and_what_stands_stays(world: World) -> None:
    world.certify("a")
    world.certify("b")
    first = world.release()
    before = {path: path.read_bytes() for path in Path(first.folder).rglob("*") if path.is_file()}
    assert (first.name, first.diff.new) == ("2026-11-30", ("a", "b"))
    assert not world.release().written
    world.certify("b", b"two")
    world.certify("c")
    quarantine(world.ledger, "a", "wrong", by="check", name="health")
    del world.certified["a"]
    second = world.release()
    assert second.name == "2026-11-30.2"
    assert (second.diff.new, second.diff.changed) == (("c",), ("b",))
    assert "in quarantine, by the check health: wrong" in second.diff.lost["a"]
    assert {path: path.read_bytes() for path in before} == before
    text = (Path(second.folder) / "README.md").read_text()
    assert "Against 2026-11-30" in text
    assert "a: in quarantine" in text


def test_what_must_not_be_given_away_is_left_out_and_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.certify("a")
    world.certify("b")
    assert world.release().diff.new == ("a", "b")
    monkeypatch.setattr(release, "barred", lambda *_: {"b": "it repeats the benchmark task t"})
    second = world.release("2026-12-01")
    assert (second.tasks, second.diff.lost) == (1, {"b": "it repeats the benchmark task t"})


def test_a_task_that_is_merely_stale_stays(world: World) -> None:
    world.certify("a")
    world.release()
    del world.certified["a"]  # a prompt changed: there is no current result
    world.certify("b")
    second = world.release("2026-12-01")
    assert (second.diff.lost, second.tasks) == ({}, 2)


def test_the_last_release_is_the_one_with_the_greatest_number(world: World) -> None:
    """Also when the clock was set back between them."""
    world.certify("a")
    world.release("2027-01-01")
    world.certify("b")
    assert world.release("2026-01-01").diff.new == ("b",)
    world.certify("c")
    assert world.release("2026-06-01").diff.new == ("c",)
    assert [found.name for found in releases(world.settings.releases)] == ["2027-01-01", "2026-01-01", "2026-06-01"]


def test_what_a_killed_release_left_is_removed_and_is_none(world: World) -> None:
    world.certify("a")
    left = world.settings.releases / ".2026-11-30.part"
    left.mkdir(parents=True)
    (left / "manifest.json").write_text("{")
    assert world.release().name == "2026-11-30"
    assert not left.exists()


def test_a_damaged_manifest_is_named(world: World) -> None:
    world.certify("a")
    path = Path(world.release().folder) / "manifest.json"
    path.write_text(json.dumps({"name": "x"}))
    with pytest.raises(ConfigError, match="bring it back, or move"):
        world.release()


GOOD, BAD = Replay(baseline=0, oracle=1), Replay(baseline=0, oracle=0, what="Reward 0.", rotten=True)


def replayed(world: World, monkeypatch: pytest.MonkeyPatch, **found: Replay | Exception) -> healths.Health:
    """Health of tasks of which each replay gives what is told."""
    answers = {found_.encode(): answer for found_, answer in found.items()}

    def replay(package: Package, *, sandbox: object) -> Replay:
        answer = answers[package.files["key"]]
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(healths, "replay", replay)
    packages = {key: world.store.put(pack({"key": key.encode()})) for key in found}
    engine: Sandbox = None  # type: ignore[assignment] - the replays are told
    return healths.health(packages, ledger=world.ledger, store=world.store, sandbox=engine, workers=2)


def test_what_rotted_is_quarantined_with_what_was_seen(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    found = replayed(world, monkeypatch, a=GOOD, b=BAD)
    assert [line.key for line in found.rotten] == ["b"]
    assert found.rotten[0].quarantined
    apart = quarantined(world.ledger)
    assert list(apart) == ["b"]
    assert (apart["b"].by, apart["b"].name) == ("check", "health")
    assert "Reward 0." in apart["b"].note


@pytest.mark.parametrize("others", [{}, {"b": BAD}, {"b": BAD, "c": BAD, "d": GOOD}])
def test_a_machine_on_which_more_fails_than_stands_quarantines_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, others: dict[str, Replay]
) -> None:
    found = replayed(world, monkeypatch, a=BAD, **others)
    assert found.doubted
    assert quarantined(world.ledger) == {}


def test_engine_trouble_is_no_verdict(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Replay(baseline=0, oracle=0, what="Reward 0.")
    found = replayed(world, monkeypatch, a=GOOD, b=SandboxError("no engine"), c=slow)
    assert quarantined(world.ledger) == {}
    assert [line.key for line in found.unknown] == ["b", "c"]
    assert {fact.key for fact in world.ledger.find(AttemptFact, stage="health")} == {"a", "c"}


def test_those_that_waited_longest_are_replayed_first(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = dict.fromkeys("abcd", "p")
    assert list(healths.sample(packages, world.ledger, 2)) == ["a", "b"]
    replayed(world, monkeypatch, a=GOOD)
    replayed(world, monkeypatch, c=GOOD)
    assert list(healths.sample(packages, world.ledger, 3)) == ["b", "d", "a"]
    quarantine(world.ledger, "b", "by hand")
    assert "b" not in healths.sample(packages, world.ledger, 4)


def test_nights_that_are_not_done_are_carried_for_a_week() -> None:
    ledger = MemoryLedger()
    for number in range(10):
        nights.note(ledger, f"n{number}", nights.BEGUN)
    nights.note(ledger, "n5", nights.DONE)
    assert nights.unfinished(ledger, "n9") == ["n2", "n3", "n4", "n6", "n7", "n8"]
    assert nights.unfinished(ledger, "n10")[0] == "n3"
