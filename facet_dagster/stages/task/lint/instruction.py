"""Rules on the instruction: it states every requirement, and gives nothing away."""

from __future__ import annotations

import re
from collections.abc import Iterator

from facet_dagster.domain.scenario import Scenario
from facet_dagster.domain.task import InstructionReply, SolutionReply
from facet_dagster.stages.task.lint.reading import is_output
from facet_dagster.stages.task.lint.rules import Problem, said
from facet_dagster.stages.task.render import markdown, script

MAX_CHARS = 12_000
LEAK_CHARS = 40
_MACHINERY = re.compile(r"solve\.sh|(?<![\w/.-])/tests\b|run_checks|/logs/verifier")
_CODE = re.compile(r"[()=$;]")  # a header or a sentence may rightly stand in both texts


def lint_instruction(
    instruction: InstructionReply, scenario: Scenario, rules_file: str, solution: SolutionReply | None = None
) -> tuple[Problem, ...]:
    """``rules_file`` is relative to /app; ``solution`` is known only once it is written."""
    text = markdown(instruction)
    return (
        *too_long(text, "instruction", MAX_CHARS),
        *_section_problems(instruction, scenario),
        *_path_problems(instruction, scenario, solution),
        *_rules_file_problems(text, rules_file),
        *_leak_problems(text, solution),
    )


def too_long(text: str, what: str, limit: int) -> Iterator[Problem]:
    """``what`` is instruction, solution or verifier."""
    if len(text) > limit:
        yield said(f"{what}-length", f"The {what} has {len(text)} characters; the limit is {limit}.")


def _section_problems(instruction: InstructionReply, scenario: Scenario) -> Iterator[Problem]:
    known = requirements(scenario)
    stated = [rid for section in instruction.sections for rid in section.rids]
    for rid in known:
        if rid not in stated:
            yield said("requirement-section", f"Requirement {rid} is stated in no section of the instruction.")
    for rid in sorted(set(stated) - set(known)):
        text = f"A section of the instruction names {rid}, which is no requirement of the scenario."
        yield said("requirement-section", text)


def _path_problems(
    instruction: InstructionReply, scenario: Scenario, solution: SolutionReply | None
) -> Iterator[Problem]:
    """``solution`` is None before it is written: then nobody knows who makes another output than the scenario's."""
    planned = scenario.references.outputs
    for path in instruction.outputs:
        if not re.fullmatch(r"/app/[^\s]+", path) or ".." in path:
            yield said("output-path", f"The instruction's output {path!r} is not an absolute path below /app.")
        elif solution and not is_output(path, planned) and path.rpartition("/")[2] not in solution.solve_sh:
            text = f"The instruction's output {path} is none of the scenario, and solve.sh does not make it."
            yield said("output-path", text)
    for path in planned:
        if path.rstrip("/") not in {p.rstrip("/") for p in instruction.outputs}:
            yield said("output-path", f"The scenario's output {path} is missing from the instruction's outputs.")


def _rules_file_problems(text: str, rules_file: str) -> Iterator[Problem]:
    if rules_file not in text:
        yield said("rules-file", f"The instruction does not mention the rules file /app/{rules_file}.")


def _leak_problems(text: str, solution: SolutionReply | None) -> Iterator[Problem]:
    if _MACHINERY.search(text):
        yield said("machinery", "The instruction speaks of solve.sh or of the tests; it must speak of the work only.")
    lines = script(solution.solve_sh).splitlines() if solution else []
    code = [line.strip() for line in lines if _CODE.search(line) and not line.lstrip().startswith("#")]
    leaked = next((line for line in code if len(line) >= LEAK_CHARS and line in text), None)
    if leaked is not None:
        yield said("solution-leak", f"The instruction holds a line of the solution: {leaked[:80]!r}.")


def requirements(scenario: Scenario) -> list[str]:
    return [requirement.rid for requirement in scenario.references.requirements]
