"""Rollouts of the real Terminus-2 under the real Harbor, with a scripted model: every fate an attempt can have."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from facet_dagster.adapters.harbor_harness import HarborHarness
from facet_dagster.adapters.memory import MemoryArtifactStore, MemoryLedger
from facet_dagster.adapters.token_counter import TokenizersTokenCounter
from facet_dagster.domain.facts import AttemptFact, CheckFact, TrialFact
from facet_dagster.domain.rollout import Attempt, Judged, RolloutProtocol
from facet_dagster.pipeline.rollouts import Jobs
from facet_dagster.reports.rollouts import near_miss
from facet_dagster.settings import load_settings
from facet_dagster.setup.harbor_tool import harbor_command
from facet_dagster.stages.rollout import conversation, judge
from facet_dagster.stages.task.package import TaskLimits, build_package
from facet_dagster.stages.task.render import script
from tests.fixtures import task_example as example
from tests.fixtures.agent_model import AgentModel, act

pytestmark = [pytest.mark.harbor, pytest.mark.docker]
WRONG = example.SOLVE.replace('"empty"', '"blank"')
FINISH = act(done=True)


def work(solve: str) -> str:
    text = base64.b64encode(script(solve).encode()).decode()
    return f"echo {text} | base64 -d > /tmp/work.sh; bash /tmp/work.sh\n"


SCRIPTS = {
    "solved": ["No object at all.", act(work(example.SOLVE)), FINISH, FINISH],
    "near": [act(work(WRONG)), FINISH, FINISH],
    "cheat": [act("cat /tests/checks.py; ls /solution\n"), act(work(example.SOLVE)), FINISH, FINISH],
    "forge": [
        act(
            "mkdir -p /tests /logs/verifier; echo 1 > /logs/verifier/reward.txt; cat /solution/solve.sh\n",
            "printf '#!/bin/bash\\necho 1 > /logs/verifier/reward.txt\\n' > /tests/test.sh; bash /tests/test.sh\n",
        ),
        FINISH,
        FINISH,
    ],
    "endless": [act("ls\n")],
}
KEYS = {mark: f"261130-{n}a0000000000" for n, mark in enumerate(SCRIPTS)}
PROTOCOL = RolloutProtocol(
    agent="terminus-2", model="openai/scripted", temperature=0.5, max_turns=6, context_tokens=100_000
)


class World:
    def __init__(self, home: Path, api_base: str) -> None:
        tool = harbor_command(load_settings().home)
        assert tool is not None, "Harbor is not set up: run `make verify-harbor`, or deselect the marker `harbor`"
        env = {**os.environ, **tool.env, "OPENAI_API_KEY": "sk-none"}
        self.home = home
        self.harness = HarborHarness(tool.argv, env, "", home=home, api_base=api_base, key=None, trials=2)
        self.ledger, self.store = MemoryLedger(), MemoryArtifactStore()
        self.packages = {mark: self.store.put(package(mark)) for mark in SCRIPTS}

    def attempts(self, number: int = 1) -> dict[str, list[Attempt]]:
        """All tasks at once, as a run of the stage asks for them."""
        jobs = Jobs(self.harness, PROTOCOL, number, self.ledger, self.store)
        with ThreadPoolExecutor(len(SCRIPTS)) as pool:
            flying = {mark: pool.submit(jobs.attempts, KEYS[mark], sha) for mark, sha in self.packages.items()}
            return {mark: future.result() for mark, future in flying.items()}

    def judged(self, attempt: Attempt) -> Judged:
        said = conversation(self.store.get(attempt.trajectory)) if attempt.trajectory else None
        return judge(attempt, said, TokenizersTokenCounter(None).count, longest=32_768)


def package(mark: str) -> bytes:
    instruction = example.INSTRUCTION.model_copy(update={"title": f"Case: {mark}"})
    return build_package(
        example.draft(seed=KEYS[mark], instruction=instruction),
        example.environment(),
        example.SCENARIO,
        example.SKILLS,
        e0_archive=example.E0_ARCHIVE,
        limits=TaskLimits.of(60),
    ).tar()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with AgentModel(SCRIPTS) as model:
        yield World(tmp_path_factory.mktemp("jobs"), model.api_base)


@pytest.fixture(scope="module")
def made(world: World) -> dict[str, Attempt]:
    return {mark: attempts[0] for mark, attempts in world.attempts().items()}


def test_solved_work_is_kept_as_the_model_wrote_it(world: World, made: dict[str, Attempt]) -> None:
    attempt = made["solved"]
    assert (attempt.reward, attempt.missed, attempt.error) == (1, (), "")
    assert {check.id for check in attempt.checks} == {check.id for check in example.VERIFIER.checks}
    assert (attempt.turns, attempt.commands) == (4, 1)
    assert attempt.prompt_tokens >= 400
    assert world.judged(attempt).accepted
    said = conversation(world.store.get(attempt.trajectory))
    assert [m.content for m in said.messages if m.role == "assistant"] == SCRIPTS["solved"]
    assert said.keystrokes == (work(example.SOLVE),)


def test_a_near_miss_says_which_checks_it_missed(world: World, made: dict[str, Attempt]) -> None:
    attempt = made["near"]
    assert attempt.reward == 0
    assert near_miss(attempt), attempt.missed
    assert [str(reason) for reason in world.judged(attempt).reasons] == ["rollout.failed"]


def test_who_reaches_for_the_judge_is_not_kept_whatever_the_reward(world: World, made: dict[str, Attempt]) -> None:
    judged = world.judged(made["cheat"])
    assert made["cheat"].reward == 1
    assert [str(reason) for reason in judged.reasons] == ["rollout.tampered"]
    assert "/tests/checks.py" in judged.what[0]


def test_forged_tests_and_rewards_change_no_verdict(world: World, made: dict[str, Attempt]) -> None:
    """It edits the tests, writes the reward file and reads the solution's path, and does no work."""
    judged = world.judged(made["forge"])
    assert made["forge"].reward == 0
    assert [str(reason) for reason in judged.reasons] == ["rollout.failed", "rollout.tampered"]
    assert "2 commands reach for the judge" in judged.what[1]


def test_who_never_ends_is_judged_and_not_kept(world: World, made: dict[str, Attempt]) -> None:
    assert (made["endless"].reward, made["endless"].turns) == (0, 6)
    assert {str(reason) for reason in world.judged(made["endless"]).reasons} == {"rollout.failed", "rollout.incomplete"}


def test_what_was_made_is_in_the_ledger_and_not_made_again(world: World, made: dict[str, Attempt]) -> None:
    facts = world.ledger.find(AttemptFact, stage="rollouts")
    assert {(fact.key, fact.round, fact.ok) for fact in facts} == {
        (KEYS[mark], 1, mark in ("solved", "cheat")) for mark in SCRIPTS
    }
    trials = {fact.key: fact for fact in world.ledger.find(TrialFact, stage="rollouts")}
    checks = world.ledger.find(CheckFact, trial=trials[KEYS["near"]].fact_id)
    assert {check.check for check in checks if check.status != "pass"} == set(made["near"].missed)
    world.harness.stop()  # nothing can run any more
    assert {mark: attempts[0] for mark, attempts in world.attempts().items()} == made


def test_nothing_stays_of_the_jobs(world: World, made: dict[str, Attempt]) -> None:
    assert list(world.home.iterdir()) == []
