"""The stage engine: resume, record, count, re-emit."""

from __future__ import annotations

import threading

import pytest

from facet_dagster.adapters.memory import MemoryArtifactStore, MemoryLedger
from facet_dagster.domain.facts import ArtifactFact, EdgeFact, StageFact
from facet_dagster.domain.outcome import Reason, StageResult, Value, Verdict, reject
from facet_dagster.errors import InvariantError, LLMError, MalformedReply, SandboxError
from facet_dagster.funnel import Outcome, Stage, StageReport, current, plan, run_stage


class Number(Value):
    n: int


FIRST = Stage("first", "1")
SECOND = Stage("second", "1", (FIRST,))
THIRD = Stage("third", "1", (SECOND, FIRST))


class World:
    def __init__(self) -> None:
        self.ledger = MemoryLedger()
        self.store = MemoryArtifactStore()
        self.computed: list[str] = []
        self.emitted: list[StageResult] = []

    def run(self, stage: Stage, keys: list[str], compute=None, **more) -> StageReport:  # type: ignore[no-untyped-def]
        def default(key: str) -> Outcome:
            self.computed.append(f"{stage.name}/{key}")
            return Outcome(Number(n=len(key)), numbers={"n": len(key)})

        return run_stage(
            stage.name,
            plan(stage, keys, self.ledger).work,
            compute or default,
            ledger=self.ledger,
            store=self.store,
            emit=self.emitted.extend,
            **more,
        )


@pytest.fixture
def world() -> World:
    return World()


def test_a_second_run_computes_nothing_and_emits_everything_again(world: World) -> None:
    world.run(FIRST, ["a", "b"])
    again = world.run(FIRST, ["a", "b"], run_id="two")
    assert world.computed == ["first/a", "first/b"]
    assert again.computed == 0
    assert [r.cached for r in world.emitted] == [False, False, True, True]
    assert {r.run_id for r in again.results} == {"two"}


def test_a_new_code_version_computes_again(world: World) -> None:
    world.run(FIRST, ["a"])
    world.run(Stage("first", "2"), ["a"])
    assert world.computed == ["first/a", "first/a"]


def test_going_back_to_old_settings_finds_the_old_results(world: World) -> None:
    for part in (1, 2, 1):
        world.run(Stage("first", "1", (), (part,)), ["a"])
    assert len(world.computed) == 2


def test_results_of_other_settings_are_not_current(world: World) -> None:
    world.run(Stage("first", "1", (), (1,)), ["a"])
    world.run(Stage("first", "1", (), (2,)), ["a"])
    assert set(current(Stage("first", "1", (), (1,)), ["a"], world.ledger)) == {"a"}
    assert current(Stage("first", "1", (), (3,)), ["a"], world.ledger) == {}


def test_what_one_key_depends_on_makes_that_key_alone_stale(world: World) -> None:
    own = {"a": "1", "b": "1"}
    stage = Stage("first", "1", own=lambda: own)
    world.run(stage, ["a", "b"])
    own["b"] = "2"
    assert set(current(stage, ["a", "b"], world.ledger)) == {"a"}
    world.run(stage, ["a", "b"])
    assert world.computed == ["first/a", "first/b", "first/b"]


def test_a_changed_output_upstream_makes_the_result_below_stale(world: World) -> None:
    world.run(FIRST, ["a"])
    world.run(SECOND, ["a"])
    other = Stage("first", "2")
    world.run(other, ["a"], lambda key: Outcome(Number(n=99)))
    assert current(Stage("second", "1", (other,)), ["a"], world.ledger) == {}


def test_a_rejection_is_stored_and_keeps_its_value(world: World) -> None:
    report = world.run(FIRST, ["a"], lambda key: Outcome(Number(n=1), reject(Reason.TASK_FLAKY, "it flips")))
    result = report.results[0]
    assert result.verdict is Verdict.REJECTED
    assert result.output is not None
    assert result.rejected_at == "first"
    assert report.failed == {}


def test_a_stage_below_a_rejection_is_not_reached_and_not_computed(world: World) -> None:
    world.run(FIRST, ["a"], lambda key: Outcome(rejection=reject(Reason.TASK_FLAKY, "it flips")))
    for stage in (SECOND, THIRD):
        result = world.run(stage, ["a"]).results[0]
        assert (result.verdict, result.rejected_at) == (Verdict.NOT_REACHED, "first")
    assert world.computed == []
    assert world.ledger.find(StageFact, stage="second") == []


def test_a_missing_upstream_result_is_named(world: World) -> None:
    assert plan(THIRD, ["a"], world.ledger).missing == {"a": "second"}


def test_infrastructure_trouble_hits_its_key_alone_and_is_not_stored(world: World) -> None:
    def compute(key: str) -> Outcome:
        if key == "b":
            raise SandboxError("no engine", transient=True)
        return Outcome(Number(n=1))

    report = world.run(FIRST, ["a", "b", "c"], compute)
    assert report.failed == {"b": "no engine"}
    assert {r.key for r in report.results} == {"a", "c"}
    assert len(world.ledger.find(StageFact, stage="first")) == 2


def test_a_malformed_reply_is_a_rejection(world: World) -> None:
    def compute(key: str) -> Outcome:
        raise MalformedReply("scenario: not JSON", raw="hello", problem="line 1")

    result = world.run(FIRST, ["a"], compute).results[0]
    assert result.rejection is not None
    assert result.rejection.reason is Reason.LLM_MALFORMED
    assert result.rejection.evidence["problem"] == "line 1"


def test_another_llm_error_is_infrastructure(world: World) -> None:
    def compute(key: str) -> Outcome:
        raise LLMError("429", transient=True)

    assert world.run(FIRST, ["a"], compute).failed == {"a": "429"}


def test_a_bug_stops_the_stage_and_keeps_what_was_settled(world: World) -> None:
    def compute(key: str) -> Outcome:
        if key == "b":
            raise InvariantError("impossible")
        return Outcome(Number(n=1))

    with pytest.raises(InvariantError):
        world.run(FIRST, ["a", "b", "c"], compute, workers=1)
    assert [fact.key for fact in world.ledger.find(StageFact)] == ["a"]


def test_values_facts_and_edges_are_recorded_together(world: World) -> None:
    world.run(FIRST, ["a"], lambda key: Outcome(Number(n=7), parents=(("pair-1", "candidate"),)))
    artifact = world.ledger.find(ArtifactFact)[0]
    assert Number.model_validate_json(world.store.get(artifact.sha256)).n == 7
    assert [(edge.child, edge.parent) for edge in world.ledger.find(EdgeFact)] == [("a", "pair-1")]


def test_two_runs_at_once_compute_each_key_once(world: World) -> None:
    barrier = threading.Barrier(2)

    def go() -> None:
        barrier.wait()
        world.run(FIRST, [f"k{n}" for n in range(20)])

    threads = [threading.Thread(target=go) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(world.computed) == len(set(world.computed)) == 20


def test_results_are_emitted_in_batches_while_the_stage_runs(world: World) -> None:
    sizes: list[int] = []
    run_stage(
        "first",
        plan(FIRST, [f"k{n}" for n in range(10)], world.ledger).work,
        lambda key: Outcome(Number(n=1)),
        ledger=world.ledger,
        store=world.store,
        emit=lambda results: sizes.append(len(results)),
        flush=4,
    )
    assert sizes == [4, 4, 2]
