"""Evaluation: what is asked of the harness, what is resumed, what the figures are."""

from __future__ import annotations

from pathlib import Path

import pytest

from facet_dagster.domain.facts import AttemptFact, TrialFact
from facet_dagster.domain.ids import digest
from facet_dagster.domain.rollout import RolloutProtocol
from facet_dagster.errors import ConfigError, SandboxError
from facet_dagster.pipeline.evaluation import benchmark_tasks, load_evaluation
from facet_dagster.reports.evaluation import evaluation_markdown, evaluation_report
from facet_dagster.reports.means import difference, mean
from tests.fixtures.evaluation_world import World


def test_the_papers_limits_are_the_defaults(tmp_path: Path) -> None:
    world = World(tmp_path)
    one = world.what.protocol(world.what.endpoints[0])
    assert (world.what.attempts, one.seconds, one.temperature, one.context_tokens) == (3, 7200.0, 1.0, 32_768)
    assert (one.agent, one.max_turns) == ("terminus-2", 0)


def test_both_endpoints_stand_beside_each_other_though_a_server_calls_them_the_same(tmp_path: Path) -> None:
    world = World(tmp_path, base={"sort": [0, 0, 1], "count": [0, 0, 0]}, tuned={"sort": [1, 1, 1], "count": [0, 1, 0]})
    assert world.run() == {}
    found = evaluation_report(world.what, world.ledger, world.store)
    base, tuned = found.endpoints
    assert found.complete
    assert (base.mean.mean, tuned.mean.mean) == (pytest.approx(1 / 6), pytest.approx(4 / 6))
    assert (base.solved_once, tuned.solved_once, base.cost) == (1, 2, 3.0)
    (pair,) = found.pairs
    assert pair.difference.difference == pytest.approx(0.5)
    assert pair.paper == pytest.approx(7.12)
    assert "tuned over base, on 2 tasks: +50.00 points" in evaluation_markdown(found)
    assert len(world.ledger.find(TrialFact, stage="evaluation")) == 12


def test_trouble_of_the_machine_is_made_again_and_never_counted(tmp_path: Path) -> None:
    always: list[float | Exception | None] = [None] * 9
    world = World(tmp_path, base={"sort": [None, 1, 1, 1], "count": always}, tuned={"sort": [1] * 3, "count": [1] * 3})
    failed = world.run()
    assert list(failed) == ["base/count"]
    assert "no engine" in failed["base/count"]
    base = evaluation_report(world.what, world.ledger, world.store).endpoints[0]
    assert (base.mean.mean, base.mean.tasks, base.missing) == (1.0, 1, ("count",))
    world.harnesses["base"].rewards["count"] = [0, 0, 0]
    assert world.run() == {}
    assert evaluation_report(world.what, world.ledger, world.store).endpoints[0].mean.mean == 0.5


def test_what_a_job_that_ended_early_told_is_not_made_again(tmp_path: Path) -> None:
    killed = SandboxError("killed", transient=True)
    world = World(tmp_path, base={"count": [0, 1, killed], "sort": []}, tuned={"sort": [0] * 3, "count": [0] * 3})
    assert set(world.run()) == {"base/count", "base/sort"}
    world.harnesses["base"].rewards = {"count": [1], "sort": [0, 0, 0]}
    assert world.run() == {}
    assert set(world.harnesses["base"].orders[-2:]) == {("count", 1), ("sort", 3)}
    assert evaluation_report(world.what, world.ledger, world.store).endpoints[0].rewards["count"] == (0, 1, 1)
    before = len(world.ledger.find(AttemptFact))
    assert world.run() == {}
    assert len(world.ledger.find(AttemptFact)) == before


def test_another_protocol_or_another_file_is_another_result(tmp_path: Path) -> None:
    world = World(tmp_path, base={"sort": [1] * 3, "count": [1] * 3}, tuned={"sort": [1] * 3, "count": [1] * 3})
    world.run()
    warmer = world.what.model_copy(update={"temperature": 0.5})
    assert evaluation_report(warmer, world.ledger, world.store).endpoints[0].missing == ("count", "sort")
    (tmp_path / "tasks" / "sort" / "instruction.md").write_text("Sort it.")
    assert evaluation_report(world.what, world.ledger, world.store).endpoints[0].missing == ("sort",)


def test_a_part_of_a_reward_is_not_solved(tmp_path: Path) -> None:
    world = World(
        tmp_path, base={"sort": [0.5, 1.0, 0.0], "count": [2.0, 0, 0]}, tuned={"sort": [0] * 3, "count": [0] * 3}
    )
    assert world.run() == {}
    base = evaluation_report(world.what, world.ledger, world.store).endpoints[0]
    assert (base.rewards, base.unjudged) == ({"sort": (0, 1, 0), "count": (0, 0, 0)}, 0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("benchmark: x\nendpoints: {}\n", "endpoints: Tuple should have at least 1 item"),
        ("benchmark: x\nendpoints: {a: {model: ''}}\n", r"endpoints\.0\.model"),
        ("benchmark: x\nendpoints: [a]\n", "must map the name of each endpoint"),
        ("benchmark: x\nendpoints: {a: {model: m}}\nattemps: 3\n", "attemps: Extra inputs"),
        ("a: [", "cannot be read as an evaluation"),
        ("", "is no evaluation"),
    ],
)
def test_a_wrong_file_is_told_in_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "e.yaml").write_text(text)
    with pytest.raises(ConfigError, match=says):
        load_evaluation(tmp_path / "e.yaml")


def test_a_folder_without_tasks_is_no_benchmark(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no Harbor task"):
        benchmark_tasks(tmp_path)
    with pytest.raises(ConfigError, match="cannot be read"):
        benchmark_tasks(tmp_path / "none")


def test_protocols_of_rollouts_keep_their_digests() -> None:
    old = {"agent": "a", "model": "m", "temperature": 1.0, "max_turns": 0, "context_tokens": 9000}
    assert digest(RolloutProtocol.model_validate(old)) == digest(old)


def test_an_interval_is_as_wide_as_tasks_agree_with_themselves() -> None:
    alike, mixed = mean([[1, 1, 1], [0, 0, 0]] * 20), mean([[1, 0, 1], [0, 1, 0]] * 20)
    assert (alike.mean, mixed.mean) == (0.5, 0.5)
    assert alike.low is not None
    assert mixed.low is not None
    assert (alike.low, alike.high) == (pytest.approx(0.3520, abs=1e-3), pytest.approx(0.6480, abs=1e-3)), "Wilson, n 40"
    assert mixed.low == pytest.approx(0.4119, abs=1e-3), "Wilson, n 120"
    assert mean([[1, 1, 1]]).low == pytest.approx(0.2065, abs=1e-3), "one task is one observation"
    assert mean([[], []]).mean is None


def test_a_difference_is_taken_task_by_task() -> None:
    hard, easy = [[0, 0, 0], [1, 1, 1]] * 20, [[1, 0, 0], [1, 1, 1]] * 20
    found = difference(hard, easy)
    assert found.difference == pytest.approx(1 / 6)
    assert found.low is not None
    assert 0.10 < found.low < 0.13, "half of the tasks gain a third: standard error 0.026"
    assert found.p is not None
    assert found.p < 0.001
    same = difference(hard, hard)
    assert (same.difference, same.p) == (0.0, 1.0)
    assert difference([[]], [[1]]).difference is None
