"""The projection from a canary."""

from __future__ import annotations

import pytest

from facet_dagster.adapters.memory import MemoryLedger
from facet_dagster.errors import ConfigError
from facet_dagster.reports.plan import Canary, Plan, canary, project
from tests.unit.test_cost import SEED, call


def seen(certified: int, seeds: int, cost: float = 1.0, upstream: float = 0.5, **more: int) -> Canary:
    values = {"pairs": 10, "unpriced": 0, **more}
    return Canary(seeds=seeds, certified=certified, costs=(cost,) * seeds, upstream=upstream, **values)


def plan(canary: Canary, *, tasks: int = 100, budget: float = 300.0, attempts: int = 2, rollout: float = 0.5) -> Plan:
    return project(canary, tasks=tasks, budget=budget, attempts=attempts, rollout=rollout)


def test_a_large_steady_canary_is_projected_as_it_is() -> None:
    planned = plan(seen(750, 1000))
    assert planned.share_certified.middle == pytest.approx(0.75, abs=0.01)
    assert planned.seeds_needed.middle == pytest.approx(133, rel=0.02)
    assert planned.synthesis_cost.middle == pytest.approx(100 * 1.5 / 0.75, rel=0.02)
    assert planned.rollout_cost == pytest.approx(100.0)
    assert planned.cost.middle == pytest.approx(300.0, rel=0.02)
    assert planned.affordable.middle == pytest.approx(100, rel=0.02)
    assert planned.pairs_missing == pytest.approx(123, abs=3)


def test_a_small_canary_says_that_it_knows_little() -> None:
    small, large = plan(seen(3, 4)), plan(seen(300, 400))
    assert small.share_certified.low < 0.6 < 0.9 <= small.share_certified.high
    assert large.share_certified.high - large.share_certified.low < 0.1
    for planned in (small, large):
        for interval in (planned.share_certified, planned.seeds_needed, planned.cost, planned.affordable):
            assert interval.low <= interval.middle <= interval.high


def test_the_same_canary_gives_the_same_plan() -> None:
    assert plan(seen(3, 5)) == plan(seen(3, 5))


@pytest.mark.parametrize(
    ("canary", "said"),
    [
        (seen(0, 5), "None of the canary's 5 seeds"),
        (seen(3, 5, unpriced=2), "2 calls of the canary have no known price"),
    ],
)
def test_what_cannot_be_projected_says_why(canary: Canary, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        plan(canary)


def test_a_canary_is_read_from_the_ledger() -> None:
    ledger = MemoryLedger()
    with pytest.raises(ConfigError, match="Batch b holds no seed"):
        canary(ledger, "b", [])
    ledger.append(
        [SEED, call("judge", "pair", 1, cost=0.5), call("solution", "k1", 2), call("solution", "k1", 3, cost=None)]
    )
    found = canary(ledger, "b", ["k1", "of another batch"])
    assert (found.seeds, found.certified, found.costs) == (1, 1, (0.25,))
    assert (found.upstream, found.unpriced) == (0.5, 1)


@pytest.mark.parametrize("certified", [1, 5])
def test_all_of_a_few_is_not_all(certified: int) -> None:
    share = plan(seen(certified, certified)).share_certified
    assert share.low < 0.9 * share.high < 1


def test_a_replayed_tape_is_no_canary() -> None:
    ledger = MemoryLedger()
    ledger.append([SEED, call("solution", "k1", 1, origin="tape", cost=0.0)])
    with pytest.raises(ConfigError, match="an installation of its own"):
        canary(ledger, "b", ["k1"])
