"""Arms: settings that stay apart in the ledger, budgets, authors, and figures over stage results in memory."""

from __future__ import annotations

from typing import Any

import pytest

from facet_dagster.adapters.memory import MemoryArtifactStore, MemoryLedger
from facet_dagster.deployments import Deployment, ModelSpec, ModelTable, by_author, load_models
from facet_dagster.domain.facts import ModelCallFact, ReplyFact, SeedFact
from facet_dagster.domain.outcome import Component, Reason, reject
from facet_dagster.domain.task import RepairRound, Task, Validation
from facet_dagster.errors import ConfigError
from facet_dagster.funnel import Outcome, plan, run_stage
from facet_dagster.pipeline.experiment import Arm, chosen_seeds, orders, pipelines
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.reports.experiment import Experiment, experiment
from facet_dagster.settings import Settings, load_settings
from tests.fixtures import task_example as example

KEYS = [f"261130-{n}00000000000" for n in range(4)]


def digests(settings: Settings) -> dict[str, str]:
    """Input digest of every stage, as if all stages above had one and the same output."""
    ledger, store, found = MemoryLedger(), MemoryArtifactStore(), {}
    for stage in seed_stages(settings):
        work = plan(stage, KEYS[:1], ledger).work
        found[stage.name] = work[0].input_digest
        run_stage(stage.name, work, lambda _: Outcome(example.SEED), ledger=ledger, store=store, emit=lambda _: None)
    return found


def apart(**changed: Any) -> list[str]:
    usual, other = digests(Settings()), digests(Settings(**changed))
    return [name for name in usual if usual[name] != other[name]]


@pytest.mark.parametrize(
    ("changed", "first"),
    [
        ({"order": "reverse"}, "task_draft"),
        ({"order": "joint"}, "task_draft"),
        ({"pipeline": "direct"}, "scenario"),
        ({"pipeline": "recording"}, "scenario"),
        ({"author": "m"}, "scenario"),
        ({"task_repairs": 3}, "task"),
    ],
)
def test_a_setting_has_results_of_its_own_from_the_stage_that_it_changes(changed: dict[str, Any], first: str) -> None:
    assert apart(**changed)[0] == first
    assert "seed" not in apart(**changed)


def test_both_baselines_share_everything_but_the_draft() -> None:
    direct, recording = digests(Settings(pipeline="direct")), digests(Settings(pipeline="recording"))
    assert [name for name in direct if direct[name] != recording[name]] == ["task_draft"]


@pytest.mark.parametrize(
    ("budget", "rounds"),
    [("equal", {"forward": 5, "reverse": 5, "joint": 5}), ("paper", {"forward": 5, "reverse": 3, "joint": 3})],
)
def test_repair_budgets(budget: Any, rounds: dict[Any, int]) -> None:
    found = {order: Settings(order=order, repair_budget=budget).repair_rounds for order in rounds}
    assert found == rounds
    assert Settings(order="joint", repair_budget="paper", task_repairs=1).repair_rounds == 1


def test_a_recording_takes_no_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACET_PIPELINE", "recording")
    monkeypatch.setenv("FACET_ORDER", "joint")
    with pytest.raises(ConfigError, match=r"FACET_ORDER: .*a recording has an order of its own"):
        load_settings()
    monkeypatch.delenv("FACET_ORDER")
    with pytest.raises(ConfigError, match="set FACET_PIPELINE=facet or direct"):
        orders(Settings(pipeline="recording"), ["forward"])


def test_arms_are_named_by_what_differs() -> None:
    assert [arm.name for arm in orders(Settings(), ["forward", "joint"])] == ["forward", "joint"]
    named = orders(Settings(), ["forward", "joint"], ["a", "b"])
    assert [arm.name for arm in named] == ["a/forward", "a/joint", "b/forward", "b/joint"]
    assert [(arm.settings.author, arm.settings.order) for arm in named][3] == ("b", "joint")
    both = pipelines(Settings(order="joint"), ["direct", "recording"])
    assert [(arm.settings.pipeline, arm.settings.order) for arm in both] == [
        ("direct", "joint"),
        ("recording", "forward"),
    ]


def test_an_author_writes_and_does_not_judge() -> None:
    specs = {name: ModelSpec(name=name, deployments=(Deployment(model=f"openai/{name}"),)) for name in ("a", "b")}
    table = by_author(ModelTable(models=specs, calls={"default": "a", "solution": "a"}), "b")
    assert {call: table.of(call).name for call in ("solution", "brief", "repair_task", "judge", "second_solution")} == {
        "solution": "b",
        "brief": "b",
        "repair_task": "b",
        "judge": "a",
        "second_solution": "a",
    }
    with pytest.raises(ConfigError, match="knows no c; it names a, b"):
        by_author(table, "c")
    assert load_models(Settings(model="openai/a", author="openai/b"), {}).of("default").model == "openai/b"


def test_the_oldest_seeds_are_taken_and_too_few_are_said() -> None:
    ledger = MemoryLedger()
    pair = {"candidate": "c", "first": "1", "second": "2", "scenario": "s", "families": ["data", "ai"]}
    ledger.append(SeedFact(key=key, batch="odd" if n % 2 else "even", **pair) for n, key in enumerate(reversed(KEYS)))
    assert chosen_seeds(ledger, 2) == KEYS[:2]
    assert chosen_seeds(ledger, 2, "even") == [KEYS[1], KEYS[3]]
    with pytest.raises(ConfigError, match="Batch odd has 2 seeds, not 3: ask for fewer"):
        chosen_seeds(ledger, 3, "odd")


def task(key: str, *rejections: Any, component: Component = Component.SOLUTION) -> Task:
    """A task with one validation for each of ``rejections``; None is a valid one."""
    validations = [Validation(round=n, baseline=None, oracle=None, rejection=r) for n, r in enumerate(rejections)]
    rounds = [RepairRound(round=n, component=component, evidence="", changed=()) for n in range(1, len(rejections))]
    return Task(
        seed=key,
        title="t",
        draft=example.draft(seed=key),
        environment=example.environment(),
        validations=tuple(validations),
        repairs=tuple(rounds),
    )


FAILED = reject(Reason.TASK_ORACLE_FAILED, "no")
LOST = reject(Reason.TASK_REPAIR_EXHAUSTED, "no", component=Component.INSTRUCTION, last_reason="task.oracle_failed")
# Valid at once; valid after one repair of the solution; never valid; no draft.
ENDS = {
    KEYS[0]: task(KEYS[0], None),
    KEYS[1]: task(KEYS[1], FAILED, None),
    KEYS[2]: task(KEYS[2], FAILED, FAILED, FAILED, component=Component.INSTRUCTION),
}


def experimented(**options: Any) -> Experiment:
    ledger, store, arm = MemoryLedger(), MemoryArtifactStore(), Arm("forward", Settings())

    def compute(stage: str, key: str) -> Outcome:
        end = ENDS.get(key)
        if stage == "task_draft" and end is None:
            return Outcome(rejection=reject(Reason.LLM_MALFORMED, "no"))
        if stage == "first_validation" and end:
            first = end.model_copy(update={"validations": end.validations[:1], "repairs": ()})
            return Outcome(first, numbers={"valid": float(first.valid)})
        if stage == "task" and end:
            return Outcome(end, rejection=None if end.valid else LOST)
        return Outcome(example.SEED)

    for stage in seed_stages(arm.settings):
        work = plan(stage, KEYS, ledger).work
        run_stage(
            stage.name,
            work,
            lambda key, name=stage.name: compute(name, key),  # type: ignore[misc]
            ledger=ledger,
            store=store,
            emit=lambda _: None,
            run_id=f"run/{stage.name}",
        )
    ledger.append(calls())
    both = [arm, Arm("again", arm.settings)]
    return experiment("orders", both, KEYS, ledger=ledger, store=store, **options)


@pytest.fixture
def found() -> Experiment:
    return experimented()


def calls() -> list[Any]:
    """A paid call, one answered from the cache twice over, one of another run, one of another seed's."""
    common: dict[str, Any] = {"tape_key": "t", "attempt": 0, "turn": 0, "model": "m", "malformed": False, "reply": "r"}
    tokens = {"prompt_tokens": 1000, "completion_tokens": 100, "seconds": 1.0}

    def call(key: str, run: str, origin: str, cost: float, name: str = "solution", stamp: str = "1") -> ModelCallFact:
        return ModelCallFact(
            call=name,
            cache_key=name,
            subject=key,
            run_id=run,
            origin=origin,
            cost=cost,
            stamp=stamp,
            **common,
            **tokens,
        )

    reply = ReplyFact(
        cache_key="verifier", call="verifier", model="m", reply="r", prompt_tokens=1, completion_tokens=1, cost=0.5
    )
    return [
        call(KEYS[0], "run/task_draft", "live", 0.25),
        call(KEYS[0], "run/task_draft", "cache", 0.0, "verifier"),
        call(KEYS[0], "run/task_draft", "cache", 0.0, "verifier", stamp="2"),
        call(KEYS[0], "another", "live", 9.0),
        call("elsewhere", "run/task_draft", "live", 9.0),
        reply,
    ]


def test_figures_of_an_arm(found: Experiment) -> None:
    arm = found.arms[0]
    assert (arm.seeds, arm.drafts.count, arm.initially_valid.count, arm.initially_valid.of) == (4, 3, 1, 3)
    assert (arm.validated.count, arm.validated.of) == (2, 4)
    assert arm.certified is not None
    assert arm.certified.count == 2
    assert (arm.by_round, arm.mean_rounds) == ({0: 1, 1: 1}, 1.0)
    assert arm.lost_before == {"llm.malformed_reply": 1}


def test_the_first_repair_says_what_was_wrong_at_first(found: Experiment) -> None:
    arm = found.arms[0]
    assert arm.initial_causes == {"solution implementation/runtime": 1, "cross-artifact contract mismatch": 1}
    assert (arm.final_causes, arm.final_components) == ({"cross-artifact contract mismatch": 1}, {"instruction": 1})


def test_spending_counts_each_call_of_a_result_once_at_what_was_paid_for_it(found: Experiment) -> None:
    spent = found.arms[0].spending
    assert (spent.calls, spent.prompt_tokens, spent.completion_tokens) == (2, 2000, 200)
    assert (spent.cost, spent.cost_per_task, spent.tokens_per_task) == (0.75, 0.375, 1100.0)


def test_equal_arms_do_not_differ(found: Experiment) -> None:
    assert [c.measure for c in found.comparisons] == ["initially_valid", "validated", "certified"]
    assert [(c.paired.difference, c.paired.p, c.paired.subjects) for c in found.comparisons] == [(0.0, 1.0, 4)] * 3


def test_where_no_certificates_were_asked_for_nothing_is_said_of_them() -> None:
    found = experimented(until="task")
    assert found.arms[0].certified is None
    assert found.arms[0].validated.count == 2
    assert [c.measure for c in found.comparisons] == ["initially_valid", "validated"]
