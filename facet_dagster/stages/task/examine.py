"""What a model adds to a certificate: mutants that the verifier must refuse, a second solution that it must accept.

Everything that a model wrote is kept, so that it can be tried again without one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from facet_dagster.domain.facts import ArtifactFact, Fact
from facet_dagster.domain.findings import KnownState, Probe
from facet_dagster.domain.ids import to_json
from facet_dagster.domain.outcome import Component, Reason, Rejection, Value
from facet_dagster.domain.replies import NO_REPLIES, Replies
from facet_dagster.domain.scenario import Scenario
from facet_dagster.domain.second import SecondReply
from facet_dagster.domain.semantic import Finding, MutantsReply, SemanticMutant, Sorted
from facet_dagster.domain.task import Draft, Task
from facet_dagster.ports import LLM, ArtifactStore
from facet_dagster.prompts import version
from facet_dagster.stages.task.known import remember
from facet_dagster.stages.task.second import Second, second
from facet_dagster.stages.task.semantic import (
    Tried,
    discriminators,
    survived,
    try_mutants,
    write_mutants,
)
from facet_dagster.stages.task.trial import Left, Trials

MUTANTS, SECOND = "semantic_mutants", "second_solution"
EXAMINE_VERSION = f"2-{version('semantic_mutants', 'second_solution', 'triage_refusal')}"


@dataclass(frozen=True)
class Examined:
    """``findings`` blame components, also where nothing is rejected. ``open`` says what could not be found out."""

    probes: tuple[Probe, ...]
    findings: tuple[Finding, ...]
    facts: tuple[Fact, ...]
    rejection: Rejection | None
    open: tuple[str, ...] = ()
    known: tuple[KnownState, ...] = ()
    replies: Replies = NO_REPLIES

    @property
    def remarks(self) -> list[str]:
        """What is left open, and the findings, which do not decide where nothing is rejected."""
        return [*self.open, *(f"{one.probe} ({one.component}): {one.what}" for one in self.findings)]


@dataclass(frozen=True)
class Kept:
    """What a model wrote for an earlier certificate of the task, tried again before it is asked anew."""

    mutants: tuple[SemanticMutant, ...] = ()
    second: SecondReply | None = None

    @classmethod
    def of(cls, facts: Iterable[Fact], store: ArtifactStore) -> Kept:
        """What the facts of those certificates say was kept: the last of each kind."""
        last = {fact.kind: fact.sha256 for fact in facts if isinstance(fact, ArtifactFact)}
        mutants, other = last.get(MUTANTS), last.get(SECOND)
        return cls(
            tuple(MutantsReply.model_validate_json(store.get(mutants)).mutants) if mutants else (),
            SecondReply.model_validate_json(store.get(other)) if other else None,
        )


NOTHING_KEPT = Kept()


def examine(
    task: Task,
    scenario: Scenario,
    *,
    llm: LLM,
    trials: Trials,
    store: ArtifactStore,
    oracle: Left | None = None,
    kept: Kept = NOTHING_KEPT,
) -> Examined:
    """Examine a valid task. ``oracle`` is what its solution leaves; it is run again when needed and not given.
    Known states are given where the task is rejected: only then will another version of it be judged.

    A verifier that refuses right work is rejected before one that accepts wrong work. Raises MalformedReply for a
    first reply of a call that does not fit, and SandboxError.
    """
    sorted_out, facts = write_mutants(task, scenario, llm=llm, store=store, kept=kept.mutants)
    tried = try_mutants(sorted_out.usable, task.draft, scenario, trials, oracle)
    other = second(task, llm=llm, trials=trials, store=store, kept=kept.second)
    rejection = other.rejection or survived(tried)
    return Examined(
        probes=(*tried.probes, *other.probes),
        findings=(*tried.findings, *_findings(other)),
        facts=(*facts, *other.facts, *_kept(sorted_out, other, store)),
        rejection=rejection,
        open=(*_untold(sorted_out, tried.probes, scenario), *([other.open] if other.open else [])),
        known=(*_wrong(tried, other, task.draft, store), *_right(other, task.draft, store)) if rejection else (),
        replies=_replies(sorted_out, other),
    )


def _replies(found: Sorted, other: Second) -> Replies:
    """What can be tried again: a second solution that was at fault itself is not."""
    mutants = MutantsReply(mutants=[one.mutant for one in found.usable]) if found.usable else None
    pairs = zip(other.probes, other.replies, strict=True)
    return Replies(mutants=mutants, second={probe.id: reply for probe, reply in pairs if not probe.crashed})


def _wrong(tried: Tried, other: Second, draft: Draft, store: ArtifactStore) -> Iterator[KnownState]:
    """What mutants left: survivors that decide against the verifier, and the refused ones whose refusal is sound."""
    unsound = {check["id"] for check in other.rejection.evidence.get("checks", [])} if other.rejection else set()
    weak = {f.probe for f in tried.findings if f.decides and f.component is Component.VERIFIER}
    for probe, left in zip(tried.probes, tried.left, strict=True):
        sound = probe.reward == 0 and not unsound.intersection(probe.failed)
        if not probe.crashed and (sound or (probe.reward == 1 and probe.id in weak)):
            yield from remember(left, draft, store, wanted=0, reason=Reason.TASK_MUTANT_SURVIVED, why=probe.what)


def _right(other: Second, draft: Draft, store: ArtifactStore) -> tuple[KnownState, ...]:
    if other.right is None:
        return ()
    why = "a second solution, of which nothing that is written demands more"
    refusing = other.probes[-1].failed
    return remember(other.right, draft, store, wanted=1, reason=Reason.TASK_OVER_STRICT, why=why, checks=refusing)


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
        *(_artifact(MUTANTS, reply, store) for reply in mutants),
        *(_artifact(SECOND, reply, store) for reply in other.replies),
    ]


def _artifact(kind: str, value: Value, store: ArtifactStore) -> ArtifactFact:
    data = to_json(value).encode()
    return ArtifactFact(sha256=store.put(data), kind=kind, size=len(data))
