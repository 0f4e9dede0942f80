"""Certificate, repair, validation, certificate: what is spent, what is kept, and which task is in force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from facet_dagster.adapters.memory import MemoryArtifactStore, ScriptedLLM
from facet_dagster.adapters.memory_sandbox import ended
from facet_dagster.domain.facts import AttemptFact, TrialFact
from facet_dagster.domain.outcome import POLICY, Component, Reason
from facet_dagster.domain.task import Certificate, Task
from facet_dagster.errors import InvariantError
from facet_dagster.funnel import Outcome
from facet_dagster.ports import Run, RunOutcome
from facet_dagster.stages.task.certificate import certify
from facet_dagster.stages.task.package import TaskLimits
from facet_dagster.stages.task.settle import certify_and_repair
from facet_dagster.stages.task.validate import first_validation, validate
from tests.fixtures import task_example as example
from tests.fixtures.certificate_bench import OUTPUTS, Files, bench, honest
from tests.fixtures.task_bench import E0_STATUSES, GOOD

SECONDS = 9
TABLE = "out/rejects.csv"
MORE = {"id": "C14", "rid": "R2", "title": "all refused rows", "body": "assert refused(), 'none'"}
ADD = {"component": "verifier", "evidence": "the probe", "put_checks": [MORE]}
IDLE = [{"component": "verifier", "evidence": "e", "put_checks": [{**MORE, "title": title}]} for title in "ab"]


@dataclass
class World:
    """A verifier that does not look at the table of refused rows until an edit mends it."""

    replies: list[Any]
    mends_at: int = 1
    seen: list[str] = field(default_factory=list)
    store: MemoryArtifactStore = field(default_factory=MemoryArtifactStore)

    def __post_init__(self) -> None:
        self.sandbox = bench(self._judge)
        self.llm = ScriptedLLM(self._reply)

    def _reply(self, call: str, variables: Mapping[str, Any], subject: str, attempt: int) -> Any:
        self.seen.append(call)
        return self.replies[len(self.seen) - 1]

    def _judge(self, files: Files, run: Run) -> Mapping[str, str]:
        mended = len(self.seen) >= self.mends_at
        if TABLE not in files and "out/totals.json" in files and not mended:
            return GOOD
        return honest(files, run)

    def settled(self, task: Task, rounds: int = 5) -> tuple[Outcome, Certificate]:
        outcome = certify_and_repair(
            task,
            example.SCENARIO,
            example.SKILLS,
            llm=self.llm,
            sandbox=self.sandbox,
            store=self.store,
            trial_seconds=SECONDS,
            day=example.DAY,
            level="basic",
            rounds=rounds,
        )
        assert isinstance(outcome.value, Certificate)
        return outcome, outcome.value


def valid_task() -> Task:
    made = first_validation(
        example.draft(), example.environment(), example.SCENARIO, sandbox=bench(), trial_seconds=SECONDS
    ).value
    assert isinstance(made, Task)
    return made


def test_a_sound_task_is_certified_as_before_and_no_model_is_asked() -> None:
    world = World([], mends_at=0)
    outcome, found = world.settled(valid_task())
    alone = certify(
        valid_task(),
        example.SCENARIO,
        example.SKILLS,
        sandbox=bench(),
        store=MemoryArtifactStore(),
        trial_seconds=SECONDS,
        day=example.DAY,
    )
    assert isinstance(alone.value, Certificate)
    assert (found.task, found.package, world.seen) == (None, alone.value.package, [])
    assert outcome.numbers["certificate_repairs"] == 0
    assert "task" not in found.model_dump(mode="json"), "old certificates keep their digests"


def test_what_a_certificate_finds_is_repaired_validated_and_certified_again() -> None:
    world = World([ADD])
    outcome, found = world.settled(valid_task())
    assert outcome.rejection is None
    assert found.package
    now = found.task
    assert now is not None
    assert [(v.valid, v.by_certificate, v.round) for v in now.validations] == [
        (True, False, 0),
        (False, True, 0),
        (True, False, 1),
    ]
    assert [check.id for check in now.draft.verifier.checks][-1] == "C14"
    assert (outcome.numbers["certificate_repairs"], len(now.repairs)) == (1, 1)
    told = [(f.stage, f.kind, f.round, f.ok) for f in outcome.facts if isinstance(f, AttemptFact)]
    assert told == [("certificate", "certificate", 0, False), ("task", "repair", 1, True)]
    evidence = world.llm.variables[0]["evidence"]
    assert (evidence["reason"], evidence["component_by_rule"]) == ("task.partial_work_accepted", "verifier")
    assert evidence["tried_by_certificate"] == {"probe": {"what": f"{TABLE} is missing", "wanted": 0, "reward": 1}}


def test_repairs_of_validation_and_certificate_share_their_rounds() -> None:
    spent = valid_task()
    rounds = [{"round": n, "component": "solution", "evidence": "", "changed": [], "result": "valid"} for n in (1, 2)]
    spent = Task.model_validate({**spent.model_dump(), "repairs": rounds})
    world = World([ADD])
    outcome, found = world.settled(spent, rounds=3)
    assert outcome.rejection is None
    assert found.task is not None
    assert [r.round for r in found.task.repairs] == [1, 2, 3]
    assert outcome.numbers["certificate_repairs"] == 1


@pytest.mark.parametrize(("rounds", "calls"), [(0, 0), (1, 1), (2, 2)])
def test_spent_rounds_reject_with_the_last_finding_and_keep_the_task_in_force(rounds: int, calls: int) -> None:
    world = World(IDLE, mends_at=9)
    outcome, found = world.settled(valid_task(), rounds=rounds)
    assert outcome.rejection is not None
    assert outcome.rejection.reason is Reason.TASK_REPAIR_EXHAUSTED
    assert outcome.rejection.evidence["last_reason"] == "task.partial_work_accepted"
    assert len(world.seen) == calls
    assert (found.package, found.probes) == ("", ())
    assert found.task is not None
    assert not found.task.valid
    assert len(found.task.repairs) == outcome.numbers["certificate_repairs"] == calls


def test_an_infeasible_task_ends_at_once() -> None:
    world = World([{"component": "instruction", "evidence": "it cannot be", "infeasible": True}])
    outcome, found = world.settled(valid_task())
    assert outcome.rejection is not None
    assert (outcome.rejection.reason, len(world.seen)) == (Reason.TASK_INFEASIBLE, 1)
    assert found.task is not None
    assert found.task.repairs[-1].result == "infeasible"


# --- final states that stay judged ---


def negative(world: World) -> Task:
    """A task whose certificate found a wrong state accepted, and which was repaired."""
    found = world.settled(valid_task())[1].task
    assert found is not None
    return found


def judged_again(task: Task, world: World, store: MemoryArtifactStore | None = None, **update: Any) -> Any:
    draft = task.draft.model_copy(update={"round": 2, **update})
    return validate(
        draft,
        task.environment,
        example.SCENARIO,
        sandbox=world.sandbox,
        limits=TaskLimits.of(SECONDS),
        stage="task",
        known=task.known,
        store=store or world.store,
    )


def test_accepted_wrong_work_is_a_negative_and_a_later_edit_may_not_accept_it() -> None:
    world = World([ADD])
    task = negative(world)
    assert [(s.wanted, s.reason, s.why) for s in task.known] == [
        (0, Reason.TASK_PARTIAL_ACCEPTED, f"{TABLE} is missing")
    ]
    good, facts = judged_again(task, world)
    assert good.valid
    assert [(f.kind, f.reward) for f in facts if isinstance(f, TrialFact)][2:] == [("negative/1", 0)]
    world.mends_at = 9  # the same verifier, weak again
    bad, _ = judged_again(task, world)
    assert bad.rejection is not None
    assert (bad.rejection.reason, str(bad.rejection.component)) == (Reason.TASK_PARTIAL_ACCEPTED, "verifier")
    assert bad.rejection.message == f"negative 1 is accepted: {TABLE} is missing"
    assert [k["state"] for k in bad.rejection.evidence["known"]] == ["negative 1"]


def test_a_state_of_an_environment_that_was_rebuilt_is_not_judged() -> None:
    world = World([ADD])
    task = negative(world)
    world.mends_at = 9
    other = task.environment.attempts[-1].model_copy(update={"image": "example/environment:2"})
    moved = task.model_copy(update={"environment": task.environment.model_copy(update={"attempts": (other,)})})
    found, facts = judged_again(moved, world, image="example/environment:2")
    assert found.valid
    assert [f.kind for f in facts if isinstance(f, TrialFact)] == ["baseline", "oracle"]


def test_a_negative_that_the_solution_leaves_itself_is_none_any_more() -> None:
    world = World([ADD])
    task = negative(world)
    world.sandbox = bench(lambda files, run: GOOD if "out/totals.json" in files else E0_STATUSES, left=without_table)
    found, _ = judged_again(task, world)
    assert found.valid


def without_table(run: Run) -> Files:
    return {path: data for path, data in OUTPUTS.items() if path != TABLE}


def test_known_states_need_their_store() -> None:
    world = World([ADD])
    task = negative(world)
    with pytest.raises(InvariantError, match="without the store"):
        validate(
            task.draft,
            task.environment,
            example.SCENARIO,
            sandbox=world.sandbox,
            limits=TaskLimits.of(SECONDS),
            stage="task",
            known=task.known,
        )


def test_a_flaky_verdict_is_repaired_and_a_program_that_fails_blames_the_solution(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert POLICY[Reason.TASK_FLAKY] == (True, Component.VERIFIER)
    world = World([{"component": "solution", "evidence": "e", "infeasible": True}], mends_at=0)
    plain = world.sandbox.run

    def run(asked: Run) -> RunOutcome:
        done = plain(asked)
        odd = asked.env.get("LC_ALL") == "C" and asked.argv[-1] != "/tests/test.sh"
        return ended(3, "no such locale", collected=done.collected) if odd else done

    monkeypatch.setattr(world.sandbox, "run", run)
    world.settled(valid_task())
    evidence = world.llm.variables[0]["evidence"]
    assert (evidence["reason"], evidence["component_by_rule"]) == ("task.flaky", "solution")
    assert evidence["program"] == {"end": "exited", "exit_code": 3, "log_tail": "no such locale"}
