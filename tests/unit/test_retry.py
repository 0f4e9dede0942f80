"""A retry computes one result again with new replies; the old one stays, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from facet_dagster.adapters.memory import MemoryArtifactStore, MemoryLedger
from facet_dagster.domain.facts import AttemptFact, CheckFact, RetryFact, SeedFact, StageFact, TrialFact
from facet_dagster.domain.outcome import Reason, StageResult, Value, Verdict, reject
from facet_dagster.errors import ConfigError
from facet_dagster.funnel import Outcome, Stage, current, plan, retry_round, run_stage
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.pipeline.retry import retry
from facet_dagster.reports.why import why
from facet_dagster.settings import Settings

KEYS = ("261130-aaaaaaaaaaaa", "261130-bbbbbbbbbbbb")
LATE = ("task_draft", "first_validation", "task")


class Text(Value):
    text: str


class World:
    """Two seeds through the stages up to ``task``; the first is rejected there until its first retry."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.ledger, self.store = settings, MemoryLedger(), MemoryArtifactStore()
        self.rounds = list[tuple[str, str, int]]()
        for key in KEYS:
            seed = SeedFact(key=key, batch="b", candidate=key, first="a", second="b", scenario="s", families=["x"])
            self.ledger.append([seed])

    def run(self, settings: Settings | None = None) -> dict[str, StageResult]:
        self.order = (settings or self.settings).order
        for stage in seed_stages(settings or self.settings)[:7]:
            results = self.stage(stage)
        return {result.key: result for result in results}

    def stage(self, stage: Stage) -> list[StageResult]:
        work = plan(stage, KEYS, self.ledger).work
        compute, ports = self.compute(stage.name), {"ledger": self.ledger, "store": self.store}
        return run_stage(stage.name, work, compute, emit=lambda _: None, **ports).results  # type: ignore[arg-type]

    def compute(self, stage: str) -> Callable[[str], Outcome]:
        def compute(key: str) -> Outcome:
            self.rounds.append((stage, key, retry_round()))
            value = Text(text=f"{stage} {key} {retry_round()} {self.order * (stage in LATE)}")
            lost = stage == "task" and key == KEYS[0] and not retry_round()
            common = {"stage": stage, "key": key, "round": 0}
            trial = TrialFact(
                kind="oracle", draft="d", repeat=0, reward=int(not lost), exit_code=0, seconds=1, **common
            )
            check = CheckFact(trial=trial.fact_id, check="C1", requirement="R1", status="fail", message=str(lost))
            attempt = AttemptFact(kind="repair", ok=not lost, summary=f"round {retry_round()}", **common)
            why = reject(Reason.TASK_FLAKY, "Two of three") if lost else None
            return Outcome(value, why, facts=(trial, check, attempt) if stage == "task" else ())

        return compute


@pytest.fixture
def world(tmp_path: Path) -> World:
    found = World(Settings(home=tmp_path))
    found.run()
    found.rounds.clear()
    return found


def stages_of(world: World) -> tuple[Stage, ...]:
    return seed_stages(world.settings)


def test_a_retry_computes_the_rejected_stage_of_that_seed_alone(world: World) -> None:
    (asked,) = retry([KEYS[0]], stages_of(world), world.ledger, note="bad luck", name="Ada")
    assert (asked.stage, asked.round, asked.reason, asked.waiting) == ("task", 1, "task.flaky", False)
    assert world.run()[KEYS[0]].verdict is Verdict.ACCEPTED
    assert world.rounds == [("task", KEYS[0], 1)]
    stored = world.ledger.find(StageFact, stage="task", key=KEYS[0])
    assert [(fact.verdict, fact.under.endswith("retry 1")) for fact in stored] == [
        ("rejected", False),
        ("accepted", True),
    ]
    world.run()
    assert len(world.rounds) == 1, "a retry is done once"


def test_asked_twice_it_waits_and_a_second_round_is_possible_after_the_first(world: World) -> None:
    retry([KEYS[0]], stages_of(world), world.ledger)
    (waiting,) = retry([KEYS[0]], stages_of(world), world.ledger)
    assert (waiting.waiting, waiting.round) == (True, 1)
    assert len(world.ledger.find(RetryFact)) == 1
    world.run()
    (again,) = retry([KEYS[0]], stages_of(world), world.ledger, stage="task")
    assert (again.round, again.waiting) == (2, False)


def test_other_settings_of_the_same_seed_are_not_touched(world: World) -> None:
    other = world.settings.model_copy(update={"order": "reverse"})
    world.run(other)
    world.rounds.clear()
    retry([KEYS[0]], stages_of(world), world.ledger)
    world.run(other)
    assert world.rounds == []


@pytest.mark.parametrize("stage", ["", "certificate", "no_such_stage"])
def test_nothing_to_retry_is_said_and_nothing_recorded(world: World, stage: str) -> None:
    with pytest.raises(ConfigError, match="has no"):
        retry(KEYS, stages_of(world), world.ledger, stage=stage) if stage else retry(
            [KEYS[1]], stages_of(world), world.ledger
        )
    assert world.ledger.find(RetryFact) == []


def test_why_shows_both_and_does_not_mix_them(world: World) -> None:
    retry([KEYS[0]], stages_of(world), world.ledger, note="bad luck", name="Ada")
    waiting = why(KEYS[0], world.settings, world.ledger, world.store)
    assert [(d["kind"], d["note"], d["by"]) for d in waiting.decisions] == [("retry of task", "bad luck", "Ada")]
    world.run()
    world.run(world.settings.model_copy(update={"order": "reverse"}))
    told = why(KEYS[0], world.settings, world.ledger, world.store)
    assert told.verdict == "accepted"
    assert [attempt["summary"] for attempt in told.attempts] == ["round 1"]
    assert [(trial["reward"], trial["failed"][0]["message"]) for trial in told.trials] == [(1, "False")]
    lost, draft, reverse = (next(o for o in told.others if fits(o)) for fits in OTHERS)
    assert [attempt["summary"] for attempt in lost.attempts] == ["round 0"]
    assert [(trial["reward"], trial["failed"][0]["message"]) for trial in lost.trials] == [(0, "True")]
    assert "order reverse" in draft.under
    assert [attempt["summary"] for attempt in reverse.attempts] == ["round 0"]
    assert current(seed_stages(world.settings).task, KEYS, world.ledger)[KEYS[0]].verdict is Verdict.ACCEPTED


OTHERS = (
    lambda one: one.stage == "task" and one.reason == "task.flaky" and "order forward" in one.under,
    lambda one: one.stage == "task_draft",
    lambda one: one.stage == "task" and "order reverse" in one.under,
)
