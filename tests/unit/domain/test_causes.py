"""Every end of a task has one of the paper's six causes."""

from __future__ import annotations

import pytest

from facet_dagster.domain.causes import Cause, cause_of
from facet_dagster.domain.outcome import POLICY, Component, Reason, reject

TASK_PARTS = (Component.ENVIRONMENT, Component.INSTRUCTION, Component.SOLUTION, Component.VERIFIER)
BEFORE_TASKS = ("rollout.", "skill.", "seed.", "scenario.thin", "llm.", "task.contaminated")


@pytest.mark.parametrize("reason", [r for r in Reason if not r.startswith(BEFORE_TASKS)])
def test_every_reason_about_a_task_has_a_cause_whatever_is_blamed(reason: Reason) -> None:
    assert isinstance(cause_of(reject(reason, "m")), Cause)
    assert all(isinstance(cause_of(reject(reason, "m", component=part)), Cause) for part in TASK_PARTS)


@pytest.mark.parametrize("reason", [r for r in Reason if r.startswith(BEFORE_TASKS)])
def test_what_is_no_task_yet_has_none(reason: Reason) -> None:
    assert cause_of(reject(reason, "m")) is None


def test_all_six_causes_occur_under_the_component_that_is_blamed_by_rule() -> None:
    assert {cause_of(reject(reason, "m")) for reason in POLICY} == {*Cause, None}


@pytest.mark.parametrize(
    ("reason", "part", "cause"),
    [
        (Reason.TASK_ORACLE_FAILED, Component.INSTRUCTION, Cause.CONTRACT),
        (Reason.TASK_ORACLE_FAILED, Component.ENVIRONMENT, Cause.GROUNDING),
        (Reason.TASK_ORACLE_FAILED, Component.SOLUTION, Cause.SOLUTION),
        (Reason.TASK_ORACLE_FAILED, Component.VERIFIER, Cause.OVER_CONSTRAINT),
        (Reason.TASK_MUTANT_SURVIVED, Component.VERIFIER, Cause.WEAK_VERIFIER),
        (Reason.TASK_MUTANT_SURVIVED, Component.ENVIRONMENT, Cause.GROUNDING),
        (Reason.TASK_SOLUTION_CRASHED, Component.ENVIRONMENT, Cause.INFRASTRUCTURE),
        (Reason.TASK_OVER_STRICT, Component.INSTRUCTION, Cause.CONTRACT),
    ],
)
def test_who_is_blamed_decides_where_the_reason_leaves_it_open(reason: Reason, part: Component, cause: Cause) -> None:
    assert cause_of(reject(reason, "m", component=part)) is cause
    spent = reject(Reason.TASK_REPAIR_EXHAUSTED, "m", component=part, last_reason=str(reason))
    assert cause_of(spent) is cause
