"""Rules on collect commands: how the state of services becomes files that checks can read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from facet_dagster.domain.environment import PlannedService
from facet_dagster.domain.task import CollectCommand, VerifierReply
from facet_dagster.stages.task.lint.rules import Problem, said
from facet_dagster.stages.task.live import ARTIFACTS
from facet_dagster.stages.task.render import checks_module


def lint_collect(
    verifier: VerifierReply,
    collect: Sequence[CollectCommand],
    *,
    services: bool,
    plans: Sequence[PlannedService] = (),
) -> tuple[Problem, ...]:
    """Problems of the commands and of what reads their files. ``plans`` say what the work does with each service."""
    return tuple(said("collect", text) for text in _problems(verifier, collect, services=services, plans=plans))


def _problems(
    verifier: VerifierReply, collect: Sequence[CollectCommand], *, services: bool, plans: Sequence[PlannedService]
) -> Iterator[str]:
    if collect and not services:
        yield "There are collect commands, but the environment runs no service."
    for command in collect:
        if ARTIFACTS not in command.command:
            yield f"The collect command {command.command[:80]!r} writes nothing below {ARTIFACTS}."
    reads = ARTIFACTS in checks_module(verifier)
    if reads and not collect:
        yield f"Checks read {ARTIFACTS}, but no collect command writes there."
    if plans and collect and not reads:
        yield f"Collect commands write below {ARTIFACTS}, but no check reads there."
    changed = [plan.name for plan in plans if plan.use != "query"]
    if changed and not collect:
        yield f"The work changes service {changed[0]}, but no collect command looks at it, so no check can see it."
