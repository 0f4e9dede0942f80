"""Jobs of rollouts: what is an attempt, what is made again, what stays of a job that ends early."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from facet_dagster.adapters.memory import MemoryArtifactStore, MemoryLedger
from facet_dagster.domain.archive import pack
from facet_dagster.domain.facts import AttemptFact
from facet_dagster.domain.rollout import RawAttempt, RolloutProtocol
from facet_dagster.errors import ConfigError, FacetError, SandboxError
from facet_dagster.pipeline.rollouts import TRIES, Jobs
from facet_dagster.ports import Order

PROTOCOL = RolloutProtocol(agent="a", model="m", temperature=1.0, max_turns=0, context_tokens=9_000)
ENGINE, JUDGE = "RuntimeError: no engine", "RewardFileEmptyError: empty"


class Harness:
    """Says of the attempts on each key, one after the other, what ``outcomes`` hold: a reward, or an error."""

    def __init__(self, **outcomes: list[float | str]) -> None:
        self.outcomes, self.jobs = outcomes, list[dict[str, int]]()
        self.ends_with: FacetError | None = None

    def run(self, orders: Sequence[Order], protocol: RolloutProtocol, done: Callable[[RawAttempt], None]) -> None:
        assert protocol == PROTOCOL
        self.jobs.append({order.key: order.attempts for order in orders})
        for order in orders:
            for _ in range(order.attempts):
                if self.outcomes[order.key]:
                    done(raw(order.key, self.outcomes[order.key].pop(0)))
        if self.ends_with:
            raise self.ends_with

    def stop(self) -> None: ...


def raw(key: str, outcome: float | str) -> RawAttempt:
    spoilt = isinstance(outcome, str)
    reward = None if isinstance(outcome, str) else outcome
    error = outcome if isinstance(outcome, str) else ""
    return RawAttempt(key, "t", reward, None, 0, 0, None, 1.0, error, spoilt, error == JUDGE, None, "none")


class World:
    def __init__(self, harness: Harness) -> None:
        self.harness, self.ledger, self.store = harness, MemoryLedger(), MemoryArtifactStore()
        self.package = self.store.put(pack({"task.toml": b""}))

    def rewards(self, attempts: int = 1, *keys: str) -> dict[str, list[int | None] | str]:
        jobs = Jobs(self.harness, PROTOCOL, attempts, self.ledger, self.store)

        def one(key: str) -> list[int | None] | str:
            try:
                return [attempt.reward for attempt in jobs.attempts(key, self.package)]
            except FacetError as error:
                return str(error)

        wanted = keys or tuple(self.harness.outcomes)
        with ThreadPoolExecutor(len(wanted)) as pool:
            return dict(zip(wanted, pool.map(one, wanted), strict=True))


def test_trouble_of_the_machine_is_no_attempt() -> None:
    world = World(Harness(x=[ENGINE, 1.0], y=[0.0]))
    assert world.rewards() == {"x": [1], "y": [0]}
    assert world.harness.jobs == [{"x": 1, "y": 1}, {"x": 1}], "one job for all, then what is missing"
    assert len(world.ledger.find(AttemptFact)) == 2


def test_trouble_that_stays_is_told_and_nothing_is_recorded() -> None:
    world = World(Harness(x=[ENGINE] * TRIES))
    assert world.rewards() == {"x": f"1 rollouts of x gave no result: {ENGINE}"}
    assert (len(world.harness.jobs), world.ledger.find(AttemptFact)) == (TRIES, [])


def test_a_verifier_that_never_gives_a_reward_leaves_an_unjudged_attempt() -> None:
    world = World(Harness(x=[JUDGE] * TRIES))
    assert world.rewards() == {"x": [None]}
    assert [fact.ok for fact in world.ledger.find(AttemptFact)] == [False]


@pytest.mark.parametrize("reward", [0.5, -1.0, 2.0])
def test_another_number_than_0_or_1_is_no_reward(reward: float) -> None:
    world = World(Harness(x=[reward]))
    assert world.rewards() == {"x": [None]}


def test_what_was_told_before_a_job_ended_early_stays() -> None:
    world = World(Harness(x=[1.0, 0.0], y=[]))
    world.harness.ends_with = SandboxError("killed", transient=True)
    assert world.rewards(3) == {"x": "killed", "y": "killed"}
    world.harness.ends_with, world.harness.outcomes = None, {"x": [1.0], "y": [0.0, 0.0, 1.0]}
    assert world.rewards(3) == {"x": [1, 0, 1], "y": [0, 0, 1]}
    assert world.harness.jobs[-1] == {"x": 1, "y": 3}
    assert world.rewards(2) == {"x": [1, 0], "y": [0, 0]}
    assert len(world.harness.jobs) == 2, "fewer than there are cost nothing"


def test_without_a_harness_everybody_is_told() -> None:
    world = World(Harness(x=[], y=[]))
    world.harness.ends_with = ConfigError("no Harbor")
    assert world.rewards() == {"x": "no Harbor", "y": "no Harbor"}
