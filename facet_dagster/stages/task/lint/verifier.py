"""Rules on the verifier: ids, the join with requirements and outputs, and what its Python may do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from facet_dagster.domain.scenario import Scenario
from facet_dagster.domain.task import InstructionReply, VerifierReply
from facet_dagster.stages.task.lint import expectations, python
from facet_dagster.stages.task.lint.instruction import requirements, too_long
from facet_dagster.stages.task.lint.rules import Problem, said
from facet_dagster.stages.task.render import checks_module

MIN_CHECKS = 12
MAX_CHARS = 120_000


def lint_verifier(
    verifier: VerifierReply, scenario: Scenario, instruction: InstructionReply | None = None
) -> tuple[Problem, ...]:
    """Problems of helpers and checks: syntax, forbidden calls, checks that cannot fail, and the join with rids."""
    source = checks_module(verifier)
    outputs = instruction.outputs if instruction else ()
    found = [
        *too_long(source, "verifier", MAX_CHARS),
        *python.problems(verifier),
        *_id_problems(verifier),
        *_join_problems(verifier, scenario),
        *_output_problems(verifier, outputs),
        *(expectations.problems(verifier, outputs) if outputs else ()),
    ]
    if not found:
        found += _compile_problems(source)
    if len(verifier.checks) < MIN_CHECKS:
        found.append(
            said("few-checks", f"The verifier has {len(verifier.checks)} checks; write at least {MIN_CHECKS}.")
        )
    return tuple(dict.fromkeys(found))


def _compile_problems(source: str) -> Iterator[Problem]:
    """What only the compiler sees; compiling runs nothing."""
    try:
        compile(source, "checks.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        yield said("python-syntax", f"checks.py does not compile: {error}")


def _id_problems(verifier: VerifierReply) -> Iterator[Problem]:
    ids = [check.id for check in verifier.checks]
    for ident in sorted({i for i in ids if ids.count(i) > 1}):
        yield said("check-ids", f"Check id {ident} is used more than once.")
    for check in verifier.checks:
        unknown = [name for name in check.depends_on if name not in ids]
        if unknown:
            yield said("check-ids", f"Check {check.id} depends on {', '.join(unknown)}, which does not exist.")
    cycle = _on_a_cycle({check.id: set(check.depends_on) & set(ids) for check in verifier.checks})
    if cycle:
        yield said("check-ids", f"Checks {', '.join(sorted(cycle))} depend on each other in a circle.")


def _on_a_cycle(needs: dict[str, set[str]]) -> set[str]:
    left = dict(needs)
    while True:
        ready = [name for name, unmet in left.items() if not unmet & set(left)]
        if not ready:
            return set(left)
        for name in ready:
            del left[name]


def _join_problems(verifier: VerifierReply, scenario: Scenario) -> Iterator[Problem]:
    known, tested = requirements(scenario), {check.rid for check in verifier.checks}
    for rid in known:
        if rid not in tested:
            yield said("requirement-join", f"Requirement {rid} has no check.")
    for check in verifier.checks:
        if check.rid not in known:
            text = f"Check {check.id} tests {check.rid}, which is no requirement of the scenario."
            yield said("requirement-join", text)


def _output_problems(verifier: VerifierReply, outputs: Sequence[str]) -> Iterator[Problem]:
    source = "\n".join([verifier.helpers, *(check.body for check in verifier.checks)])
    for path in outputs:
        if path.rstrip("/").rpartition("/")[2] not in source:
            yield said("unchecked-output", f"No check names the output {path}.")
