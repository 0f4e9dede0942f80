"""What is wrong with a draft before any trial: problems refuse it, remarks are kept beside its validation."""

from __future__ import annotations

from collections.abc import Sequence

from facet_dagster.domain.environment import Environment, PlannedService
from facet_dagster.domain.scenario import Scenario
from facet_dagster.domain.task import Draft
from facet_dagster.stages.task.lint import comparisons, fixtures, literals, paths, tools
from facet_dagster.stages.task.lint.collecting import lint_collect
from facet_dagster.stages.task.lint.instruction import lint_instruction
from facet_dagster.stages.task.lint.rules import RULES, Problem, Rule
from facet_dagster.stages.task.lint.solution import lint_solution
from facet_dagster.stages.task.lint.verifier import lint_verifier
from facet_dagster.stages.task.render import rules_text

__all__ = [
    "RULES",
    "Problem",
    "Rule",
    "lint",
    "lint_collect",
    "lint_instruction",
    "lint_on",
    "lint_remarks",
    "lint_solution",
    "lint_verifier",
]


def lint(
    draft: Draft,
    scenario: Scenario,
    rules_file: str,
    *,
    services: bool = False,
    plans: Sequence[PlannedService] = (),
) -> tuple[Problem, ...]:
    """All problems of a draft, instruction first. ``services`` says that something answers on the loopback."""
    return (
        *lint_instruction(draft.instruction, scenario, rules_file, draft.solution),
        *lint_solution(draft.solution, services=services),
        *lint_verifier(draft.verifier, scenario, draft.instruction),
        *lint_collect(draft.verifier, draft.collect, services=services, plans=plans),
    )


def lint_on(draft: Draft, environment: Environment, scenario: Scenario) -> tuple[Problem, ...]:
    """All problems of a draft on the initial state that it was written for."""
    recipe = environment.recipe
    plans = environment.manifest.services
    found = lint(draft, scenario, recipe.rules_file, services=bool(recipe.services), plans=plans)
    return (*found, *paths.problems(draft, environment))


def lint_remarks(
    draft: Draft, environment: Environment, scenario: Scenario, passed: frozenset[str] = frozenset()
) -> tuple[Problem, ...]:
    """What is often a defect of a draft on this environment; it decides nothing.

    ``passed`` are the ids of checks that accepted what the solution left.
    """
    e0 = environment.e0
    inputs = [file.path for file in e0.files if file.type == "file"] if e0 else []
    found = [
        *fixtures.remarks(environment, scenario),
        *paths.remarks(draft, environment),
        *tools.remarks(draft.solution, e0.package_versions if e0 else {}),
        *literals.remarks(draft, environment, passed),
        *comparisons.remarks(draft, inputs, rules_text(environment)),
    ]
    return tuple(dict.fromkeys(found))
