"""What a model adds to a certificate: mutants that the verifier must refuse, a second solution that it must accept.

Everything that a model wrote is kept, so that it can be tried again without one.
"""

from __future__ import annotations

from dataclasses import dataclass

from facet_dagster.domain.facts import ArtifactFact, Fact
from facet_dagster.domain.findings import Probe
from facet_dagster.domain.ids import to_json
from facet_dagster.domain.outcome import Component, Rejection, Value
from facet_dagster.domain.replies import NO_REPLIES, Replies
from facet_dagster.domain.scenario import Scenario
from facet_dagster.domain.semantic import Finding, MutantsReply, Sorted
from facet_dagster.domain.task import Task
from facet_dagster.ports import LLM, ArtifactStore
from facet_dagster.prompts import version
from facet_dagster.stages.task.second import Second, second
from facet_dagster.stages.task.semantic import (
    discriminators,
    survived,
    try_mutants,
    write_mutants,
)
from facet_dagster.stages.task.trial import Left, Trials

EXAMINE_VERSION = f"1-{version('semantic_mutants', 'second_solution', 'triage_refusal')}"


@dataclass(frozen=True)
class Examined:
    """``findings`` blame components, also where nothing is rejected. ``open`` says what could not be found out."""

    probes: tuple[Probe, ...]
    findings: tuple[Finding, ...]
    facts: tuple[Fact, ...]
    rejection: Rejection | None
    open: tuple[str, ...] = ()
    replies: Replies = NO_REPLIES

    @property
    def remarks(self) -> list[str]:
        """What is left open, and the findings, which do not decide where nothing is rejected."""
        return [*self.open, *(f"{one.probe} ({one.component}): {one.what}" for one in self.findings)]


def examine(
    task: Task,
    scenario: Scenario,
    *,
    llm: LLM,
    trials: Trials,
    store: ArtifactStore,
    oracle: Left | None = None,
) -> Examined:
    """Examine a valid task. ``oracle`` is what its solution leaves; it is run again when needed and not given.

    A verifier that refuses right work is rejected before one that accepts wrong work. Raises MalformedReply for a
    first reply of a call that does not fit, and SandboxError.
    """
    sorted_out, facts = write_mutants(task, scenario, llm=llm, store=store)
    tried = try_mutants(sorted_out.usable, task.draft, scenario, trials, oracle)
    other = second(task, llm=llm, trials=trials, store=store)
    return Examined(
        probes=(*tried.probes, *other.probes),
        findings=(*tried.findings, *_findings(other)),
        facts=(*facts, *other.facts, *_kept(sorted_out, other, store)),
        rejection=other.rejection or survived(tried),
        open=(*_untold(sorted_out, tried.probes, scenario), *([other.open] if other.open else [])),
        replies=_replies(sorted_out, other),
    )


def _replies(found: Sorted, other: Second) -> Replies:
    """What can be tried again: a second solution that was at fault itself is not."""
    mutants = MutantsReply(mutants=[one.mutant for one in found.usable]) if found.usable else None
    pairs = zip(other.probes, other.replies, strict=True)
    return Replies(mutants=mutants, second={probe.id: reply for probe, reply in pairs if not probe.crashed})


def _findings(other: Second) -> tuple[Finding, ...]:
    refusal = other.rejection
    if refusal is None:
        return ()
    evidence = dict(refusal.evidence)
    probe = other.probes[-1].id
    return (Finding(probe=probe, component=Component(refusal.component), what=refusal.message, evidence=evidence),)


def _untold(found: Sorted, probes: tuple[Probe, ...], scenario: Scenario) -> list[str]:
    """Discriminators of which no mutant ran to its end."""
    ran = {probe.id for probe in probes if not probe.crashed}
    tried = {one.mutant.discriminator for one in found.usable if one.mutant.id in ran}
    return [
        f"No mutant of discriminator {name} could be tried." for name in discriminators(scenario) if name not in tried
    ]


def _kept(found: Sorted, other: Second, store: ArtifactStore) -> list[Fact]:
    mutants = [MutantsReply(mutants=[one.mutant for one in found.usable])] if found.usable else []
    return [
        *(_artifact("semantic_mutants", reply, store) for reply in mutants),
        *(_artifact("second_solution", reply, store) for reply in other.replies),
    ]


def _artifact(kind: str, value: Value, store: ArtifactStore) -> ArtifactFact:
    data = to_json(value).encode()
    return ArtifactFact(sha256=store.put(data), kind=kind, size=len(data))
