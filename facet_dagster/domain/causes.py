"""Six causes of failure (paper, Figure 2b), and to which of them a rejection of a task belongs."""

from __future__ import annotations

from enum import StrEnum

from facet_dagster.domain.outcome import Component, Reason, Rejection


class Cause(StrEnum):
    """Why a task is not valid, in the paper's words."""

    CONTRACT = "cross-artifact contract mismatch"
    GROUNDING = "fixture/schema/path grounding"
    INFRASTRUCTURE = "infrastructure/build/dependency"
    OVER_CONSTRAINT = "self-check/over-constraint"
    SOLUTION = "solution implementation/runtime"
    WEAK_VERIFIER = "weak-verifier discrimination"


# Where the reason says nothing about who is wrong, the blamed component does.
BY_COMPONENT: dict[Component, Cause] = {
    Component.SCENARIO: Cause.CONTRACT,
    Component.INSTRUCTION: Cause.CONTRACT,
    Component.ENVIRONMENT: Cause.GROUNDING,
    Component.SOLUTION: Cause.SOLUTION,
    Component.VERIFIER: Cause.OVER_CONSTRAINT,
}
# Reasons that decide whatever is blamed. Of the others the component decides.
BY_REASON: dict[Reason, Cause] = {
    Reason.SCENARIO_MISALIGNED: Cause.CONTRACT,
    Reason.ENVIRONMENT_POLICY: Cause.INFRASTRUCTURE,
    Reason.ENVIRONMENT_BUILD_FAILED: Cause.INFRASTRUCTURE,
    Reason.ENVIRONMENT_REPAIR_EXHAUSTED: Cause.INFRASTRUCTURE,
    Reason.TASK_SERVICE_FAILED: Cause.INFRASTRUCTURE,
    Reason.TASK_SOLUTION_LEAKED: Cause.GROUNDING,
    Reason.TASK_BASELINE_PASSED: Cause.WEAK_VERIFIER,
    Reason.TASK_ATTACK_ACCEPTED: Cause.WEAK_VERIFIER,
    Reason.TASK_PARTIAL_ACCEPTED: Cause.WEAK_VERIFIER,
    Reason.TASK_NOT_IDEMPOTENT: Cause.SOLUTION,
    Reason.TASK_TIGHT_LIMITS: Cause.SOLUTION,
}
# Rules that are broken, and mutants that survive, are seen from the other side than a refusal of right work is.
BY_BOTH: dict[tuple[Reason, Component], Cause] = {
    (Reason.TASK_POLICY, Component.VERIFIER): Cause.CONTRACT,
    (Reason.TASK_MUTANT_SURVIVED, Component.VERIFIER): Cause.WEAK_VERIFIER,
    (Reason.TASK_SOLUTION_CRASHED, Component.ENVIRONMENT): Cause.INFRASTRUCTURE,
}


def cause_of(rejection: Rejection) -> Cause | None:
    """None for skills and seeds, no tasks yet, for a reply that cannot be read, and for what repeats a benchmark.

    Where repairs were of no use, their last reason decides, on the component that was blamed last.
    """
    reason = _last_reason(rejection)
    if reason in (Reason.LLM_MALFORMED, Reason.TASK_CONTAMINATED) or rejection.component in (
        Component.SKILL,
        Component.SEED,
        Component.ROLLOUT,
    ):
        return None
    found = BY_BOTH.get((reason, rejection.component)) or BY_REASON.get(reason)
    return found or BY_COMPONENT[rejection.component]


def _last_reason(rejection: Rejection) -> Reason:
    last = rejection.evidence.get("last_reason")
    return Reason(last) if last in set(Reason) else rejection.reason
