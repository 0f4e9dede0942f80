"""Yields of a batch against earlier ones: a drop beyond chance is called so, one within it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from facet_dagster.adapters.memory import MemoryArtifactStore, MemoryLedger
from facet_dagster.domain.facts import SeedFact
from facet_dagster.domain.outcome import Reason, reject
from facet_dagster.domain.seed import Seed
from facet_dagster.funnel import Outcome, plan, run_stage
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.reports.statistics import difference
from facet_dagster.reports.yields import Yield, Yields, yields, yields_markdown
from facet_dagster.settings import Settings


class World:
    """Seeds of several batches, of which the scenario stage accepts as many as told."""

    def __init__(self, folder: Path) -> None:
        self.settings = Settings(home=folder)
        self.ledger, self.store = MemoryLedger(), MemoryArtifactStore()

    def batch(self, name: str, good: int, bad: int, settings: Settings | None = None) -> None:
        keys = [f"{name}-{number:03d}" for number in range(good + bad)]
        pair = {"candidate": "p", "first": "1", "second": "2", "scenario": "s", "families": ["data", "ai"]}
        self.ledger.append(SeedFact(key=key, batch=name, **pair) for key in keys)
        for stage in seed_stages(settings or self.settings)[:2]:
            run_stage(
                stage.name,
                plan(stage, keys, self.ledger).work,
                lambda key, at=stage.name: outcome(key, refused=at == "scenario" and keys.index(key) >= good),  # type: ignore[misc]
                ledger=self.ledger,
                store=self.store,
                emit=lambda _: None,
            )

    def of(self, batch: str = "") -> Yields:
        return yields(self.settings, "t", self.ledger, batch)

    def scenario(self, batch: str = "") -> Yield:
        return next(line for line in self.of(batch).lines if line.stage == "scenario")


def outcome(key: str, *, refused: bool) -> Outcome:
    value = Seed(key=key, candidate="p", skills=("1", "2"), scenario="s", families=("data", "ai"))
    return Outcome(value, reject(Reason.SCENARIO_THIN, "thin") if refused else None)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_clear_drop_is_called_one_and_names_its_stage(world: World) -> None:
    world.batch("a", 40, 10)
    world.batch("b", 44, 6)
    world.batch("c", 10, 30)
    line = world.scenario()
    assert (line.now.count, line.now.of, line.last.of, line.before.of) == (10, 40, 50, 100)
    assert line.dropped
    assert line.serious
    assert [found.stage for found in world.of().dropped] == ["scenario"]
    assert "**dropped**" in yields_markdown(world.of())


@pytest.mark.parametrize(("good", "bad"), [(8, 4), (12, 0), (0, 0), (1, 1)])
def test_chance_is_no_drop(world: World, good: int, bad: int) -> None:
    world.batch("a", 40, 10)
    world.batch("b", good, bad)
    assert world.of("b").dropped == []


def test_a_batch_is_judged_against_earlier_ones_alone(world: World) -> None:
    world.batch("a", 40, 10)
    world.batch("b", 45, 5)
    world.batch("c", 2, 40)
    assert not world.scenario("b").dropped
    assert world.scenario("b").last.of == 50


def test_results_under_earlier_settings_count_as_before_and_not_as_now(world: World) -> None:
    other = world.settings.model_copy(update={"author": "another-model"})
    world.batch("a", 40, 10, other)
    world.batch("b", 40, 10, other)
    line = world.scenario()
    assert (line.now.of, line.before.of) == (0, 50)
    assert not line.dropped


def test_nothing_at_all_is_no_drop(world: World) -> None:
    assert world.of().dropped == []
    assert world.of().batch == ""


def test_the_bounds_are_newcombes() -> None:
    """Newcombe 1998, method 10, the first example of his Table II: 56/70 and 48/80."""
    found = difference(56, 70, 48, 80)
    assert found is not None
    assert (round(found.low, 4), round(found.high, 4)) == (0.0524, 0.3339)
    assert difference(1, 1, 0, 0) is None
