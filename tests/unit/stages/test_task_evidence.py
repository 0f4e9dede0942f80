"""What a repair is shown of a certificate's findings: enough to act on, and the same on every machine."""

from __future__ import annotations

from typing import Any

import pytest

from facet_dagster.domain.ids import canonical
from facet_dagster.domain.outcome import Component, Reason, Rejection, reject
from facet_dagster.domain.task import TaskRepairReply, Validation
from facet_dagster.prompts import render
from facet_dagster.stages.task.draft import shared_variables
from facet_dagster.stages.task.evidence import artifacts, evidence, recipe_view
from tests.fixtures import task_example as example
from tests.fixtures.examination import MUTANTS, QUOTE


def shown(rejection: Rejection) -> dict[str, Any]:
    return evidence(Validation(round=0, baseline=None, oracle=None, rejection=rejection, by_certificate=True))


MUTANT = {
    "probe": "M6",
    "component": "verifier",
    "what": "The verifier accepts another app/out/rejects.csv.",
    "decides": True,
    "evidence": {"mutant": MUTANTS[5], "differing": ["app/out/rejects.csv"], "difference": "-4,empty\n", "row": ""},
}
PROBE = {"id": "attack/empty", "what": "empty outputs", "wanted": 0, "reward": 1}
CHECK = {"id": "C6", "requirement": "R1", "status": "fail", "log_tail": "east is not written as 0.0"}


def test_a_mutant_comes_with_its_rule_its_place_and_what_it_changes() -> None:
    found = shown(reject(Reason.TASK_MUTANT_SURVIVED, "m", findings=[MUTANT]))["tried_by_certificate"]
    assert found["surviving_mutants"] == [
        {
            "rule": "4",
            "wrong_reading": MUTANTS[5]["wrong_reading"],
            "find": "sorted(refused)",
            "replace": "sorted(refused, reverse=True)",
            "says": "The verifier accepts another app/out/rejects.csv.",
            "files_that_differ": ["app/out/rejects.csv"],
            "solution_minus_mutant_plus": {"log_tail": "-4,empty\n"},
        }
    ]


@pytest.mark.parametrize(
    ("rejection", "named"),
    [
        (reject(Reason.TASK_ATTACK_ACCEPTED, "m", probe=PROBE, failed=[]), {"probe"}),
        (reject(Reason.TASK_NOT_IDEMPOTENT, "m", probe=PROBE, failed=[CHECK]), {"probe"}),
        (reject(Reason.TASK_TIGHT_LIMITS, "m", probe=PROBE, failed=[], seconds=70.1, limit=120), {"seconds_allowed"}),
        (reject(Reason.TASK_SOLUTION_LEAKED, "m", path="/app/x", found="a whole output"), {"answer_found"}),
        (reject(Reason.TASK_OVER_STRICT, "m", checks=[CHECK], said={"quote": QUOTE}), {"referee"}),
        (reject(Reason.TASK_PARTIAL_ACCEPTED, "m", known=[{"state": "negative 1"}]), {"known_states"}),
    ],
)
def test_every_finding_is_shown_under_its_name(rejection: Rejection, named: set[str]) -> None:
    found = shown(rejection)
    assert named <= set(found["tried_by_certificate"])
    assert found["checks_not_passed"] == rejection.evidence.get("failed", rejection.evidence.get("checks", []))


def test_a_validations_evidence_is_what_it_was() -> None:
    assert "tried_by_certificate" not in shown(reject(Reason.TASK_ORACLE_FAILED, "m", checks=[CHECK]))


def test_the_prompt_names_what_the_evidence_holds_and_times_are_not_part_of_the_tapes_key() -> None:
    def variables(seconds: float) -> dict[str, Any]:
        tight = reject(Reason.TASK_TIGHT_LIMITS, f"takes {seconds} s", probe=PROBE, seconds=seconds, limit=120)
        return {
            **shared_variables(example.SCENARIO, example.environment()),
            "draft": artifacts(example.draft()),
            "recipe": recipe_view(example.environment()),
            "evidence": shown(tight),
            "history": [],
        }

    one, other = (render("repair_task", variables(seconds), TaskRepairReply) for seconds in (70.1, 71.2))
    assert one.variables == other.variables
    names = ("surviving_mutants", "files_that_differ", "referee", "second_solution", "probe", "answer_found")
    assert all(name in one.user for name in (*names, "seconds_allowed", "known_states", "row_that_should_tell"))
    assert canonical(variables(70.1)["evidence"])["component_by_rule"] == Component.SOLUTION
