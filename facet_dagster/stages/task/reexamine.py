"""What a model wrote for a certificate, tried once more without one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from facet_dagster.domain.findings import Probe
from facet_dagster.domain.outcome import Reason, Rejection, reject
from facet_dagster.domain.replies import Replies
from facet_dagster.domain.scenario import Scenario
from facet_dagster.domain.task import Task
from facet_dagster.stages.task.blind import try_blind
from facet_dagster.stages.task.second import try_second
from facet_dagster.stages.task.semantic import discriminators, survived, try_mutants, usable_mutants
from facet_dagster.stages.task.trial import Trials


@dataclass(frozen=True)
class Reexamined:
    """``rejection`` is that of an examination, without a triage: what was right once is right now."""

    probes: tuple[Probe, ...]
    rejection: Rejection | None


def examine_again(
    task: Task, scenario: Scenario, replies: Replies, *, trials: Trials, strict: bool = False
) -> Reexamined:
    """Try mutants and second solutions again, and the blind verifier where ``strict``. Raises SandboxError."""
    written = replies.mutants.mutants if replies.mutants else []
    found = usable_mutants(task, written, discriminators(scenario))
    tried = try_mutants(found.usable, task.draft, scenario, trials)
    others = tuple(_others(task, replies, trials, strict=strict))
    refused = next((probe for probe in others if not probe.ok), None)
    return Reexamined((*tried.probes, *others), _refused(refused) if refused else survived(tried))


def _others(task: Task, replies: Replies, trials: Trials, *, strict: bool) -> Iterator[Probe]:
    for ident, reply in replies.second.items():
        yield try_second(reply, task.draft.instruction.outputs, trials).probe(ident)
    if strict and replies.blind:
        yield from try_blind(task, replies.blind, replies.second, trials)


def _refused(probe: Probe) -> Rejection:
    reason = Reason.TASK_OVER_STRICT if probe.kind == "second" else Reason.TASK_VERIFIERS_DISAGREE
    text = f"{probe.what} was accepted once and is refused now, by {', '.join(probe.failed[:10]) or 'no check'}."
    return reject(reason, text, probe=probe.id, failed=list(probe.failed[:20]))
