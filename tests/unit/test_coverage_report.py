from __future__ import annotations

from typing import Any

import pytest

from facet_dagster.domain.environment import Environment
from facet_dagster.domain.scenario import Discriminator, Scenario
from facet_dagster.domain.seed import Span
from facet_dagster.domain.task import Draft, Section
from facet_dagster.reports.coverage import coverage, rids_in, rules_in
from tests.fixtures import task_example as example

STEPS = ["Totals (R1)", "Refused rows (R2, R3)"]


def scenario(**update: Any) -> Scenario:
    """The example's, where R1 applies rule 1, R2 and R3 rules 1 and 2, and R4 is an invariant."""
    texts = {"R1": "totals (rule 1)", "R2": "refused (rules 1 and 2)", "R3": "reasons (rules 1, 2)", "R4": "inputs"}
    kinds = {"R4": "invariant"}
    requirements = [
        r.model_copy(update={"text": texts[r.rid], "kind": kinds.get(r.rid, "output")})
        for r in example.SCENARIO.references.requirements
    ]
    references = example.SCENARIO.references.model_copy(update={"requirements": requirements})
    built = example.SCENARIO.reconstruction.model_copy(update=update)
    return example.SCENARIO.model_copy(update={"references": references, "reconstruction": built})


def environment(*placed: str) -> Environment:
    found = example.environment()
    assert found.e0 is not None
    files = (found.e0.files[-1].model_copy(update={"rows": dict.fromkeys(placed, "row")}), *found.e0.files[:-1])
    return found.model_copy(update={"e0": found.e0.model_copy(update={"files": files})})


def draft(steps: list[str] = STEPS, **update: Any) -> Draft:
    return example.draft(solution=example.SOLUTION.model_copy(update={"steps": steps}), **update)


def holes(given: Draft, where: Environment | None = None, scene: Scenario | None = None) -> list[str]:
    return list(coverage(given, where or environment("D1", "D2", "D3"), scene or scenario()).holes)


def test_a_requirement_is_joined_with_everything_that_belongs_to_it() -> None:
    found = coverage(draft(), environment("D1", "D2", "D3"), scenario())
    assert found.holes == ()
    line = {line.rid: line for line in found.requirements}["R2"]
    assert (line.rules, line.sections, line.steps, line.skill) == ((1, 2), (2,), (2,), "AB")
    assert line.checks == ("C2", "C7", "C8", "C12")
    assert line.discriminators == ("D1", "D2", "D3")


def test_a_requirement_is_followed_to_the_words_of_the_skill() -> None:
    scene = scenario()
    requirements = [r.model_copy(update={"sources": ["A2", "B1"]}) for r in scene.references.requirements]
    scene = scene.model_copy(
        update={
            "references": scene.references.model_copy(update={"requirements": requirements}),
            "spans": (Span(operation="A2", skill="skill-a", part="body", start=3, end=40),),
        }
    )
    line = coverage(draft(), environment(), scene).requirements[0]
    assert line.operations == ("A2 [skill-a body 3-40]: o2", "B1 [common practice]: o1")


def test_a_discriminator_that_no_check_looks_at_is_a_hole() -> None:
    checks = [check.model_copy(update={"discriminators": []}) for check in example.CHECKS]
    given = draft(verifier=example.VERIFIER.model_copy(update={"checks": checks}))
    assert holes(given) == [f"No check looks at the row of discriminator D{n}." for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("given", "hole"),
    [
        (draft(["Totals (R1)"]), "Requirement R2 is done in no step of the solution."),
        (draft([*STEPS, "Tidy up"]), "Step 3 of the solution belongs to no requirement: Tidy up"),
        (
            draft(instruction=example.INSTRUCTION.model_copy(update={"sections": example.INSTRUCTION.sections[:2]})),
            "Requirement R4 is stated in no section of the instruction.",
        ),
        (
            draft(
                instruction=example.INSTRUCTION.model_copy(
                    update={"sections": [*example.INSTRUCTION.sections, Section(rids=["R9"], text="x")]}
                )
            ),
            "Section 4 of the instruction states R9, which is no requirement.",
        ),
        (
            draft(verifier=example.VERIFIER.model_copy(update={"checks": example.CHECKS[:12]})),
            "Requirement R4 is tested by no check.",
        ),
        (draft(verifier=example.with_check(3, rid="R8")), "Check C3 tests R8, which is no requirement."),
    ],
)
def test_a_hole_on_either_side_is_a_defect(given: Draft, hole: str) -> None:
    assert hole in holes(given)


def test_a_section_without_requirements_is_context_and_an_invariant_needs_no_step() -> None:
    sections = [Section(rids=[], text="By the way."), *example.INSTRUCTION.sections]
    given = draft(instruction=example.INSTRUCTION.model_copy(update={"sections": sections}))
    found = coverage(given, environment("D1", "D2", "D3"), scenario())
    assert (found.context, found.holes) == ((1,), ())


def test_discriminators_need_a_requirement_and_a_row() -> None:
    lost = Discriminator(id="D9", rule="Rule 7: at most 3", wrong_reading="w", row="r")
    scene = scenario(discriminators=[lost])
    assert holes(draft(), environment("D9"), scene) == [
        "Discriminator D9 is about 'Rule 7: at most 3', a rule that no requirement applies.",
        "No check looks at the row of discriminator D9.",
    ]
    assert holes(draft(), environment("D1", "D2")) == ["The row of discriminator D3 is not in the initial state."]


def test_ids_and_rules_in_prose() -> None:
    assert rids_in("does R1, R3-R5 and R7 to R8; not XR2") == {"R1", "R3", "R4", "R5", "R7", "R8"}
    assert rules_in("by rule 4 (rules 1, 2 and 6 to 8), not 9; Rule 12.") == (1, 2, 4, 6, 7, 8, 12)
