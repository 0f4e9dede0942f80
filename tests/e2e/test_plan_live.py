"""A plan from a canary, and what the rest then really cost; budgets on the way."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from facet_dagster.connect import open_ledger
from facet_dagster.domain.facts import ModelCallFact, SeedFact
from facet_dagster.settings import load_settings
from tests.e2e.conftest import Installation, installation
from tests.fixtures.handmade_model import HandmadeModel

pytestmark = [pytest.mark.docker, pytest.mark.postgres]

MODELS = """
models:
  handmade: {{model: openai/handmade, api_base: "{api_base}", key_env: HANDMADE_KEY, price: {{input: 2, output: 8}}}}
calls: {{default: handmade}}
"""
BOOKS = ("log book", "rent roll", "guest list", "seed chart", "toll sheet", "ration card")
OWNERS = ("harbour", "mill", "abbey", "school", "mine", "dairy")
THINGS = ("barrels", "wagons", "candles", "lessons", "lamps", "churns")
PLACES = ("pier", "parish", "cloister", "class", "shaft", "pasture")
FATES = ("valid", "valid", "build-repair", "valid", "task-repair", "valid")
CANARY, TASKS = 5, 7


def write_skills(folder: Path) -> None:
    """One pair for each topic: one skill reads a book, the other sums what stands in it."""
    topics = itertools.islice(zip(itertools.cycle(FATES), _topics(), strict=False), CANARY + TASKS)
    for fate, (book, owner, thing, place) in topics:
        reading = f"Read the {book} of a {owner}: {thing} by {place} and keeper, {thing} left blank are refused."
        summing = f"Sum {owner} {book} {thing} by {place}, refuse every {place} that the {owner} {book} does not know."
        for name, text in ((f"{owner} {book}", reading), (f"{owner} {book} sums by {place}", summing)):
            slug = name.replace(" ", "-")
            (folder / slug).mkdir(parents=True)
            (folder / slug / "SKILL.md").write_text(
                f"---\nname: {slug}\ndescription: {text}\nlicense: Apache-2.0\n---\n\n# {name}\n\n{text}\n\n"
                "## Rules\n\n1. Columns are id, region, amount, with a header.\n"
                f"2. {thing.capitalize()} without an amount are refused as `empty`.\n\n"
                f"Case: {fate}. Topic: {owner}-{book.replace(' ', '-')}.\n"
            )


def _topics() -> Iterator[tuple[str, str, str, str]]:
    for shift in range(len(BOOKS)):
        for n in range(len(BOOKS)):
            yield BOOKS[(n + shift) % len(BOOKS)], OWNERS[n], THINGS[n], PLACES[n]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("plan")
    write_skills(folder / "skills")
    with HandmadeModel() as model:
        (folder / "models.yaml").write_text(MODELS.format(api_base=model.api_base))
        settings = {"FACET_MODELS": str(folder / "models.yaml"), "HANDMADE_KEY": "sk-none", "FACET_NEIGHBOURS": "1"}
        settings["FACET_SKILL_SHARE"] = "0.005"  # each skill once: a scenario that comes twice is paid once
        for found in installation(**settings):
            found.json("ingest", str(folder / "skills"))
            yield found


@pytest.fixture(scope="module")
def planned(home: Installation) -> Any:
    return home.json("plan", "--tasks", str(TASKS), "--budget", "1000", "--seeds", str(CANARY), "--attempts", "0")


def spent(home: Installation, batch: str, monkeypatch: pytest.MonkeyPatch) -> float:
    """USD of the calls of a batch's seeds."""
    for name in [name for name in os.environ if name.startswith("FACET_")]:
        monkeypatch.delenv(name)
    for name, value in {"FACET_HOME": str(home.home), **home.settings}.items():
        monkeypatch.setenv(name, value)
    ledger = open_ledger(load_settings())
    keys = [fact.key for fact in ledger.find(SeedFact, batch=batch)]
    return ledger.total(ModelCallFact, "cost", subject=keys)


def test_a_budget_stops_what_starts_and_loses_nothing(home: Installation, planned: Any) -> None:
    stopped = home.call("run", "--batch", "rest", "--seeds", str(TASKS), FACET_BUDGET_RUN="0.02")
    assert stopped.returncode == 1
    assert "FACET_BUDGET_RUN allows are spent: raise it and run again" in " ".join(stopped.stdout.split())
    before = home.json("cost")["total"]
    assert before["cost"] > 0
    assert planned["canary"]["certified"] > 0


def test_the_plan_meets_what_the_rest_costs(home: Installation, planned: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert planned["canary"]["seeds"] == CANARY
    done = home.json("run", "--batch", "rest", "--seeds", str(TASKS))
    certified = done["counts"]["certified"]
    assert certified >= TASKS - 2
    upstream = planned["canary"]["upstream"] * done["counts"]["seeds"]
    actual = spent(home, "rest", monkeypatch) + upstream
    projected = planned["synthesis_cost"]["middle"] / TASKS * certified
    assert projected == pytest.approx(actual, rel=0.2)


def test_money_adds_up(home: Installation, planned: Any) -> None:
    report = home.json("cost")
    assert report["total"]["unpriced"] == 0
    assert sum(line["cost"] for line in report["stages"]) == pytest.approx(report["total"]["cost"], rel=1e-6)
    assert report["per_task"] == pytest.approx(report["total"]["cost"] / report["certified"], rel=1e-4)
    assert planned["rollout_cost"] == 0


def test_a_plan_below_the_floor_is_refused(home: Installation, planned: Any) -> None:
    assert planned["affordable"]["middle"] > TASKS
    few = ("plan", "--tasks", "1000", "--budget", "0.1", "--seeds", str(CANARY), "--floor", "0.5")
    refused = home.call(*few)
    assert refused.returncode == 1
    assert "below the floor, 50%" in " ".join(refused.stderr.split())
