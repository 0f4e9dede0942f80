from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest

from facet_dagster.adapters.memory_sandbox import MemorySandbox, ended
from facet_dagster.domain.archive import pack
from facet_dagster.domain.facts import CheckFact, TrialFact
from facet_dagster.domain.outcome import Component, Reason
from facet_dagster.domain.task import Draft, Task
from facet_dagster.domain.trial import End
from facet_dagster.errors import SandboxError
from facet_dagster.ports import Run, RunOutcome
from facet_dagster.stages.task.validate import first_validation
from tests.fixtures import task_example as example
from tests.fixtures.task_bench import ALL, E0_STATUSES, GOOD, bench, results, sound

ONE_FAILS = {**GOOD, "C4": "fail", "C9": "blocked"}
NOTHING = ended(collected={"/logs/verifier": None})


def validated(sandbox: MemorySandbox, draft: Draft | None = None) -> tuple[Task, Mapping[str, float]]:
    outcome = first_validation(
        draft or example.draft(), example.environment(), example.SCENARIO, sandbox=sandbox, trial_seconds=9
    )
    assert outcome.rejection is None, "a first validation is accepted whatever its verdict"
    assert isinstance(outcome.value, Task)
    return outcome.value, outcome.numbers


def test_a_sound_draft_is_valid() -> None:
    task, numbers = validated(bench(sound))
    assert task.valid
    assert numbers == {"valid": 1, "checks": 13}
    assert task.title == "Regional sales totals"


def judge(
    oracle: Mapping[str, str] | RunOutcome, baseline: Mapping[str, str] | RunOutcome = E0_STATUSES
) -> MemorySandbox:
    return bench(lambda text: oracle if text else baseline)


def working(end: End, code: int) -> MemorySandbox:
    return bench(
        lambda text: E0_STATUSES, lambda text: ended(code, "Traceback: boom", end=end, collected={"/app": None})
    )


def told(message: str, status: str = "error") -> RunOutcome:
    return ended(collected={"/logs/verifier": results({**GOOD, "C4": status}, message)})


@pytest.mark.parametrize(
    ("sandbox", "reason", "component"),
    [
        (judge(GOOD, GOOD), Reason.TASK_BASELINE_PASSED, Component.VERIFIER),
        (judge(GOOD, NOTHING), Reason.TASK_VERIFIER_BROKEN, Component.VERIFIER),
        (judge(GOOD, {"import": "error"}), Reason.TASK_VERIFIER_BROKEN, Component.VERIFIER),
        (
            judge(GOOD, ended(end=End.TIMEOUT, collected={"/logs/verifier": None})),
            Reason.TASK_TIMEOUT,
            Component.VERIFIER,
        ),
        (
            judge(GOOD, ended(end=End.OOM, collected={"/logs/verifier": None})),
            Reason.TASK_RESOURCES,
            Component.VERIFIER,
        ),
        (working(End.EXITED, 3), Reason.TASK_SOLUTION_CRASHED, Component.SOLUTION),
        (working(End.TIMEOUT, 137), Reason.TASK_TIMEOUT, Component.SOLUTION),
        (working(End.OOM, 137), Reason.TASK_RESOURCES, Component.SOLUTION),
        (working(End.DISK, 137), Reason.TASK_RESOURCES, Component.SOLUTION),
        (judge(ONE_FAILS), Reason.TASK_ORACLE_FAILED, Component.VERIFIER),
        (judge(NOTHING), Reason.TASK_VERIFIER_BROKEN, Component.VERIFIER),
        (judge(told("NameError: name 'x' is not defined")), Reason.TASK_VERIFIER_BROKEN, Component.VERIFIER),
        (judge(told("KeyError: 'north'")), Reason.TASK_ORACLE_FAILED, Component.VERIFIER),
        (judge(told("NameError: as text", "fail")), Reason.TASK_ORACLE_FAILED, Component.VERIFIER),
        (judge(ended(end=End.TIMEOUT, collected={"/logs/verifier": None})), Reason.TASK_TIMEOUT, Component.VERIFIER),
    ],
)
def test_failures_are_classified_by_rules(sandbox: MemorySandbox, reason: Reason, component: Component) -> None:
    task, numbers = validated(sandbox)
    rejection = task.validations[0].rejection
    assert rejection is not None
    assert (rejection.reason, rejection.component) == (reason, component)
    assert numbers["valid"] == 0


def test_a_broken_rule_is_found_without_any_trial() -> None:
    sandbox = bench(sound)
    task, _ = validated(sandbox, example.draft(solution=example.solution("curl x\n")))
    rejection = task.validations[0].rejection
    assert rejection is not None
    assert (rejection.reason, rejection.component) == (Reason.TASK_POLICY, Component.SOLUTION)
    assert rejection.evidence["problems"] == ["solution: solve.sh calls 'curl', but there is no network."]
    assert (sandbox.runs, sandbox.builds) == ([], [])


def test_nothing_of_the_oracle_is_judged_or_kept_when_the_baseline_decides() -> None:
    sandbox = judge(GOOD, GOOD)
    outcome = first_validation(
        example.draft(), example.environment(), example.SCENARIO, sandbox=sandbox, trial_seconds=9
    )
    assert isinstance(outcome.value, Task)
    assert outcome.value.validations[0].oracle is None
    assert [fact.kind for fact in outcome.facts if isinstance(fact, TrialFact)] == ["baseline"]
    assert [run.argv[-1] for run in sandbox.runs].count("/tests/test.sh") == 1


def test_trouble_with_a_work_that_is_not_needed_is_none() -> None:
    """The baseline decides while the engine loses the container of the solution."""

    def script(run: Run) -> RunOutcome:
        if run.argv[-1] == "/solution/solve.sh":
            raise SandboxError("lost", transient=True)
        return ended(collected={"/logs/verifier": results(GOOD)})

    task, _ = validated(MemorySandbox(script))
    rejection = task.validations[0].rejection
    assert rejection is not None
    assert rejection.reason is Reason.TASK_BASELINE_PASSED


def test_baseline_and_the_work_of_the_oracle_run_beside_each_other() -> None:
    both = threading.Barrier(2, timeout=20)
    seen: list[str] = []

    def script(run: Run) -> RunOutcome:
        seen.append(run.argv[-1])
        if len(seen) <= 2:
            both.wait()
        return ended(collected={"/logs/verifier": results(E0_STATUSES), "/app": pack({}, folders=("app",))})

    validated(MemorySandbox(script))
    assert sorted(seen[:2]) == ["/solution/solve.sh", "/tests/test.sh"]
    assert seen[2:] == ["/tests/test.sh"]


def test_evidence_lists_blocked_checks_last_and_holds_the_end_of_the_output() -> None:
    sandbox = bench(
        lambda text: {"C1": "blocked", **ONE_FAILS} if text else E0_STATUSES,
    )
    task, _ = validated(sandbox)
    rejection = task.validations[0].rejection
    assert rejection is not None
    assert [c["id"] for c in rejection.evidence["checks"]] == ["C4", "C9"]
    assert rejection.evidence["exit_code"] == 0
    crash, _ = validated(working(End.EXITED, 3))
    assert crash.validations[0].rejection is not None
    assert crash.validations[0].rejection.evidence["log_tail"] == "Traceback: boom"


def test_checks_that_contradict_their_flag_at_e0_are_remarks() -> None:
    task, _ = validated(judge(GOOD, {**E0_STATUSES, "C3": "pass", "C13": "fail"}))
    assert task.valid
    assert [text.split(" but")[0] for text in task.validations[0].remarks] == [
        "Check C3 passes on the untouched initial state",
        "Check C13 is marked invariant",
    ]


def test_remarks_of_the_lint_stand_beside_the_verdict() -> None:
    typed = example.draft(verifier=example.with_check(5, body='assert totals() == "2024-07-01T10:00"'))
    unborne = {**GOOD, "C5": "fail"}
    task, _ = validated(judge(unborne), typed)
    assert [text.partition(" which")[0] for text in task.validations[0].remarks] == [
        "unknown-literal: Check C5 holds 2024-07-01T10:00,"
    ]
    assert validated(judge(GOOD), typed)[0].validations[0].remarks == ()
    refused = typed.model_copy(update={"solution": example.solution("curl x\n")})
    assert len(validated(bench(sound), refused)[0].validations[0].remarks) == 1


def test_every_trial_and_check_is_a_fact() -> None:
    outcome = first_validation(
        example.draft(), example.environment(), example.SCENARIO, sandbox=bench(sound), trial_seconds=9
    )
    assert [(f.kind, f.reward) for f in outcome.facts if isinstance(f, TrialFact)] == [("baseline", 0), ("oracle", 1)]
    assert sum(isinstance(f, CheckFact) for f in outcome.facts) == 2 * len(ALL)


def test_an_environment_in_which_nothing_runs_is_blamed() -> None:
    sandbox = MemorySandbox(
        lambda run: (
            ended(126, "no user agent", seconds=0.0, collected={"/app": None})
            if run.user == "agent"
            else ended(collected={"/logs/verifier": results(E0_STATUSES)})
        )
    )
    task, _ = validated(sandbox)
    rejection = task.validations[0].rejection
    assert rejection is not None
    assert rejection.component is Component.ENVIRONMENT
