"""Verdicts, reasons and components: a bad task is data.

``Reason`` is closed. ``POLICY`` says for each reason whether a repair may help and which component
is blamed before a classifier has spoken.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer


class Value(BaseModel):
    """Base of every domain value: frozen, and strict about unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Sparse(Value):
    """A value whose fields named in ``SPARSE`` stand in its JSON only when they hold something.

    So a field can be added without another digest of every value that was stored before.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _without_empty(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in serialise(self).items() if value or name not in self.SPARSE}


class Verdict(StrEnum):
    """What a stage computed about one key."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    NOT_REACHED = "not_reached"  # an earlier stage rejected it


class Component(StrEnum):
    """The part of a task that a repair may write (paper, Table 8)."""

    SKILL = "skill"
    SEED = "seed"
    SCENARIO = "scenario"
    ENVIRONMENT = "environment"
    INSTRUCTION = "instruction"
    SOLUTION = "solution"
    VERIFIER = "verifier"
    ROLLOUT = "rollout"  # no part of a task: an agent's attempt on it


class Reason(StrEnum):
    """Why something was rejected."""

    SKILL_UNREADABLE = "skill.unreadable"
    SKILL_NO_TITLE = "skill.no_title"
    SKILL_EMPTY = "skill.empty"
    SKILL_OVERSIZED = "skill.oversized"
    SKILL_UNSAFE = "skill.unsafe"
    SKILL_PRIVATE_NETWORK = "skill.private_network"
    SKILL_INJECTION = "skill.prompt_injection"
    SKILL_LANGUAGE = "skill.language"
    SKILL_LICENCE = "skill.licence"
    SKILL_DUPLICATE = "skill.duplicate"
    SKILL_NEAR_DUPLICATE = "skill.near_duplicate"
    SEED_REFUSED = "seed.refused_by_judge"
    SEED_DUPLICATE = "seed.duplicate"
    SEED_NOT_SELECTED = "seed.not_selected"
    SEED_CONTAMINATED = "seed.contaminated"
    SCENARIO_THIN = "scenario.thin_skills"
    SCENARIO_MISALIGNED = "scenario.misaligned"
    ENVIRONMENT_POLICY = "environment.policy_violation"
    ENVIRONMENT_BUILD_FAILED = "environment.build_failed"
    ENVIRONMENT_REPAIR_EXHAUSTED = "environment.repair_exhausted"
    TASK_POLICY = "task.policy_violation"
    TASK_BASELINE_PASSED = "task.baseline_passed"
    TASK_SOLUTION_CRASHED = "task.solution_crashed"
    TASK_ORACLE_FAILED = "task.oracle_failed"
    TASK_SERVICE_FAILED = "task.service_failed"
    TASK_VERIFIER_BROKEN = "task.verifier_broken"
    TASK_TIMEOUT = "task.timeout"
    TASK_RESOURCES = "task.resource_limit"
    TASK_FLAKY = "task.flaky"
    TASK_REPAIR_EXHAUSTED = "task.repair_exhausted"
    TASK_INFEASIBLE = "task.infeasible"
    TASK_SOLUTION_LEAKED = "task.solution_leaked"
    TASK_NOT_IDEMPOTENT = "task.not_idempotent"
    TASK_TIGHT_LIMITS = "task.tight_limits"
    TASK_ATTACK_ACCEPTED = "task.attack_accepted"
    TASK_PARTIAL_ACCEPTED = "task.partial_work_accepted"
    TASK_MUTANT_SURVIVED = "task.mutant_survived"
    TASK_OVER_STRICT = "task.over_strict"
    TASK_HARD_CODED = "task.hard_coded"
    TASK_VERIFIERS_DISAGREE = "task.verifiers_disagree"
    TASK_CONTAMINATED = "task.contaminated"
    LLM_MALFORMED = "llm.malformed_reply"
    ROLLOUT_FAILED = "rollout.failed"
    ROLLOUT_UNJUDGED = "rollout.unjudged"
    ROLLOUT_INCOMPLETE = "rollout.incomplete"
    ROLLOUT_TOO_LONG = "rollout.too_long"
    ROLLOUT_TAMPERED = "rollout.tampered"
    ROLLOUT_QUARANTINED = "rollout.quarantined"


class Policy(NamedTuple):
    """Whether a bounded edit may help, and which component is blamed first."""

    repairable: bool
    component: Component


_FINAL = {
    Component.SKILL: [r for r in Reason if r.startswith("skill.")],
    Component.SEED: [r for r in Reason if r.startswith("seed.")],
    Component.ROLLOUT: [r for r in Reason if r.startswith("rollout.")],
}
POLICY: dict[Reason, Policy] = {
    **{reason: Policy(False, part) for part, reasons in _FINAL.items() for reason in reasons},
    Reason.SCENARIO_THIN: Policy(False, Component.SKILL),
    Reason.SCENARIO_MISALIGNED: Policy(False, Component.SCENARIO),
    Reason.ENVIRONMENT_POLICY: Policy(True, Component.ENVIRONMENT),
    Reason.ENVIRONMENT_BUILD_FAILED: Policy(True, Component.ENVIRONMENT),
    Reason.ENVIRONMENT_REPAIR_EXHAUSTED: Policy(False, Component.ENVIRONMENT),
    Reason.TASK_POLICY: Policy(True, Component.VERIFIER),
    Reason.TASK_BASELINE_PASSED: Policy(True, Component.VERIFIER),
    Reason.TASK_SOLUTION_CRASHED: Policy(True, Component.SOLUTION),
    Reason.TASK_ORACLE_FAILED: Policy(True, Component.VERIFIER),
    Reason.TASK_SERVICE_FAILED: Policy(True, Component.ENVIRONMENT),
    Reason.TASK_VERIFIER_BROKEN: Policy(True, Component.VERIFIER),
    Reason.TASK_TIMEOUT: Policy(True, Component.SOLUTION),
    Reason.TASK_RESOURCES: Policy(True, Component.SOLUTION),
    Reason.TASK_FLAKY: Policy(True, Component.VERIFIER),
    Reason.TASK_REPAIR_EXHAUSTED: Policy(False, Component.VERIFIER),
    Reason.TASK_INFEASIBLE: Policy(False, Component.INSTRUCTION),
    Reason.TASK_SOLUTION_LEAKED: Policy(True, Component.ENVIRONMENT),
    Reason.TASK_NOT_IDEMPOTENT: Policy(True, Component.SOLUTION),
    Reason.TASK_TIGHT_LIMITS: Policy(True, Component.SOLUTION),
    Reason.TASK_ATTACK_ACCEPTED: Policy(True, Component.VERIFIER),
    Reason.TASK_PARTIAL_ACCEPTED: Policy(True, Component.VERIFIER),
    Reason.TASK_MUTANT_SURVIVED: Policy(True, Component.VERIFIER),
    Reason.TASK_OVER_STRICT: Policy(True, Component.VERIFIER),
    Reason.TASK_HARD_CODED: Policy(True, Component.SOLUTION),
    Reason.TASK_VERIFIERS_DISAGREE: Policy(True, Component.VERIFIER),
    Reason.TASK_CONTAMINATED: Policy(False, Component.INSTRUCTION),
    Reason.LLM_MALFORMED: Policy(False, Component.SCENARIO),
}


class Rejection(Value):
    """A computed refusal: reason, blamed component, one sentence, and bounded evidence."""

    reason: Reason
    component: Component
    message: str
    evidence: dict[str, Any] = {}


def reject(reason: Reason, message: str, *, component: Component | None = None, **evidence: Any) -> Rejection:
    """A Rejection whose component, unless given, comes from POLICY."""
    return Rejection(reason=reason, component=component or POLICY[reason].component, message=message, evidence=evidence)


class StageResult(Value):
    """What one stage computed for one key: the unit of resume, of a partition and of the funnel.

    ``output`` is the artifact (sha256) that holds the value; ``numbers`` are counts shown in the UI;
    ``cached`` is true when the result was read back, not computed, in this run.
    """

    stage: str
    key: str
    input_digest: str
    verdict: Verdict
    rejection: Rejection | None = None
    rejected_at: str | None = None
    output: str | None = None
    numbers: dict[str, float] = {}
    seconds: float = 0.0
    run_id: str = ""
    cached: bool = False
