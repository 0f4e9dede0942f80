"""The cost report: by call, stage, model, run, seed, and for a certified task."""

from __future__ import annotations

from typing import Any

import pytest

from facet_dagster.adapters.memory import MemoryLedger
from facet_dagster.deployments import Price
from facet_dagster.domain.facts import ModelCallFact, SeedFact
from facet_dagster.prompts import calls
from facet_dagster.reports.cost import STAGE_OF, cost

SEED = SeedFact(key="k1", batch="b", candidate="c", first="f", second="s", scenario="x", families=["data"])


def call(name: str, subject: str, number: int, **more: Any) -> ModelCallFact:
    values: dict[str, Any] = {
        "call": name,
        "cache_key": str(number),
        "tape_key": "",
        "subject": subject,
        "attempt": 0,
        "turn": 0,
        "origin": "live",
        "model": "openai/m",
        "prompt_tokens": 1000,
        "completion_tokens": 100,
        "malformed": False,
        "reply": "r",
        "seconds": 1.0,
        "run_id": "r1",
        "stamp": str(number),
        "day": "2030-01-31",
        "cost": 0.25,
    }
    return ModelCallFact(**{**values, **more})


@pytest.fixture
def ledger() -> MemoryLedger:
    ledger = MemoryLedger()
    ledger.append(
        [
            SEED,
            call("hypotheses", "skill", 1, retries=2, waited=3.0),
            call("judge", "pair", 2, model="openai/n", cost=0.5, run_id="r2"),
            call("solution", "k1", 3, malformed=True),
            call("solution", "k1", 4, origin="cache", cost=0.0),
        ]
    )
    return ledger


def test_sums_agree_whatever_they_are_sorted_by(ledger: MemoryLedger) -> None:
    report = cost(ledger, certified=2)
    assert (report.total.calls, report.total.paid, report.total.malformed) == (4, 3, 1)
    assert report.total.cost == pytest.approx(1.0)
    for lines in (report.calls, report.stages, report.models, report.runs):
        assert sum(line.cost for line in lines) == pytest.approx(report.total.cost)
        assert sum(line.calls for line in lines) == report.total.calls
    assert report.per_task == pytest.approx(0.5)
    assert [line.name for line in report.models] == ["openai/m", "openai/n"]
    assert [(line.name, line.cost) for line in report.seeds] == [("k1", 0.25)]
    assert (report.total.retries, report.total.waited) == (2, 3.0)


def test_a_price_says_what_all_tokens_would_cost_but_hits_stay_free(ledger: MemoryLedger) -> None:
    report = cost(ledger, certified=1, price=Price(input=10, output=1000))
    assert report.total.cost == pytest.approx(3 * (1000 * 10 + 100 * 1000) / 1e6)


def test_while_a_price_is_unknown_no_task_has_one(ledger: MemoryLedger) -> None:
    ledger.append([call("solution", "k1", 9, cost=None)])
    report = cost(ledger, certified=2)
    assert report.total.unpriced == 1
    assert report.per_task is None


def test_an_empty_ledger_costs_nothing() -> None:
    report = cost(MemoryLedger(), certified=0)
    assert (report.total.calls, report.total.cost, report.per_task, report.calls) == (0, 0.0, None, ())


def test_every_call_belongs_to_a_stage() -> None:
    assert set(STAGE_OF) == {"probe", *calls()}
