"""One engine for every stage: resume, record, count, re-emit.

A stage is a function from a key to an Outcome. ``run_stage`` looks each key up in the ledger first
(under a claim, so that two processes never compute the same result), computes what is missing with
bounded concurrency, records it, and hands every result, old or new, to ``emit``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field

from pydantic import BaseModel

from facet_dagster.bounded import Batch, bounded
from facet_dagster.domain.facts import (
    ArtifactFact,
    AttemptFact,
    CheckFact,
    EdgeFact,
    Fact,
    RetryFact,
    StageFact,
    TrialFact,
)
from facet_dagster.domain.ids import digest, to_json
from facet_dagster.domain.outcome import Reason, Rejection, StageResult, Verdict, reject
from facet_dagster.errors import LedgerError, MalformedReply, PortError
from facet_dagster.ports import ArtifactStore, Ledger


@dataclass(frozen=True)
class Outcome:
    """What a stage says about one key: a value, a rejection, or both (a rejected value is kept)."""

    value: BaseModel | None = None
    rejection: Rejection | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)
    facts: tuple[Fact, ...] = ()
    parents: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Work:
    """One key to do: the input's digest decides whether a stored result still stands.

    ``upstream`` is set when an earlier stage did not accept the key: there is nothing to compute then. ``first`` is
    the digest before anybody asked for a retry, ``retry`` how often that was.
    """

    key: str
    input_digest: str
    upstream: StageResult | None = None
    first: str = ""
    retry: int = 0
    under: str = ""


@dataclass
class StageReport:
    """What happened in one run of a stage. ``failed`` maps keys to infrastructure trouble.

    ``halted``: the run was called off, and keys that had not begun are neither in ``results`` nor in ``failed``.
    """

    stage: str
    results: list[StageResult] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    halted: bool = False

    @property
    def computed(self) -> int:
        return sum(not r.cached for r in self.results)


Compute = Callable[[str], Outcome]


@dataclass(frozen=True)
class Stage:
    """A node of the funnel: ``version`` covers its code and prompts, ``parts`` the settings it depends on.

    ``upstream`` are the stages, over the same keys, whose outputs it reads. ``own`` is asked at each plan for what
    else one key depends on, as a digest; ``barred`` for the keys that it must leave alone now, and why.
    ``under`` names, for people, the settings that tell its results from others of the same seed.
    """

    name: str
    version: str
    upstream: tuple[Stage, ...] = ()
    parts: tuple[object, ...] = ()
    own: Callable[[], Mapping[str, str]] | None = None
    barred: Callable[[Ledger], Mapping[str, Rejection]] | None = None
    under: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """What there is to do; ``missing`` maps keys to the upstream stage that has no current result."""

    work: tuple[Work, ...]
    missing: Mapping[str, str]


class Memo(dict[str, dict[str, StageResult]]):
    """Current results by stage, and the retries that were asked for, read once."""

    _retries: Mapping[str, int] | None = None

    def retries(self, ledger: Ledger) -> Mapping[str, int]:
        """Digest of an input -> how often its result shall be computed again."""
        if self._retries is None:
            self._retries = {found[0]: found[1] for found in ledger.values(RetryFact, "input_digest", "round")}
        return self._retries


_ROUND: ContextVar[int] = ContextVar("retry", default=0)


def retry_round() -> int:
    """In a stage that computes a result again because somebody asked for it: the how-manieth time; else 0."""
    return _ROUND.get()


def plan(stage: Stage, keys: Sequence[str], ledger: Ledger, memo: Memo | None = None) -> Plan:
    """Input digest and upstream of each key, from the *current* results of the upstream stages."""
    memo = Memo() if memo is None else memo
    above = [(up.name, current(up, keys, ledger, memo)) for up in stage.upstream]
    own = stage.own() if stage.own else {}
    barred = stage.barred(ledger) if stage.barred else {}
    retries = memo.retries(ledger)
    work, missing = [], {}
    for key in keys:
        lacking = next((name for name, results in above if key not in results), None)
        if lacking is not None:
            missing[key] = lacking
            continue
        ups = [results[key] for _, results in above]
        stopped = next((up for up in ups if up.verdict is not Verdict.ACCEPTED), None)
        first = digest([stage.name, stage.version, key, [up.output for up in ups], list(stage.parts), *_own(own, key)])
        again = retries.get(first, 0)
        inputs = digest([first, "retry", again]) if again else first
        if stopped is None and key in barred:
            stopped = _barred(stage.name, key, inputs, barred[key])
        work.append(Work(key, inputs, stopped, first, again, _under(stage, again)))
    return Plan(tuple(work), missing)


def _barred(stage: str, key: str, inputs: str, why: Rejection) -> StageResult:
    return StageResult(
        stage=stage, key=key, input_digest=inputs, verdict=Verdict.REJECTED, rejection=why, rejected_at=stage
    )


def _under(stage: Stage, again: int) -> str:
    retried = (f"retry {again}",) if again else ()
    return ", ".join((f"version {stage.version[:8]}", *stage.under, *retried))


def _own(own: Mapping[str, str], key: str) -> list[str]:
    return [own[key]] if key in own else []


def current(stage: Stage, keys: Sequence[str], ledger: Ledger, memo: Memo | None = None) -> dict[str, StageResult]:
    """The stored results that still stand: same code, prompts, settings and inputs as now."""
    memo = Memo() if memo is None else memo
    if stage.name not in memo:
        planned = plan(stage, keys, ledger, memo)
        stored = _stored(stage.name, keys, ledger)
        found = memo[stage.name] = {}
        for item in planned.work:
            if item.upstream is not None:
                found[item.key] = _not_reached(stage.name, item, "")
            elif (item.key, item.input_digest) in stored:
                found[item.key] = stored[item.key, item.input_digest]
    return memo[stage.name]


def stale(stage: Stage, keys: Sequence[str], ledger: Ledger) -> dict[str, str]:
    """Key -> input digest, where there is no current result and all that it reads is there."""
    memo = Memo()
    standing = current(stage, keys, ledger, memo)
    return {item.key: item.input_digest for item in plan(stage, keys, ledger, memo).work if item.key not in standing}


def run_stage(
    stage: str,
    work: Sequence[Work],
    compute: Compute,
    *,
    ledger: Ledger,
    store: ArtifactStore,
    emit: Callable[[Sequence[StageResult]], None],
    workers: int = 2,
    run_id: str = "",
    flush: int = 100,
    stop: Callable[[], None] | None = None,
    halt: Callable[[StageReport], bool] | None = None,
) -> StageReport:
    """Run ``compute`` for every key that has no stored result; emit each result once, in batches.

    A batch is emitted when it holds ``flush`` results, or when its oldest is some seconds old. When the process is
    interrupted, ``stop`` is called: what is in flight ends soon, and is kept. ``halt`` is asked about once a second
    whether the run is called off; then no key begins any more, and what ends is still emitted.

    A PortError of one key is recorded in ``report.failed`` and the others go on; anything else is a
    bug and propagates. The caller fails its run when ``failed`` is not empty.
    """
    report = StageReport(stage)
    keys = [item.key for item in work if item.upstream is None]
    known = _stored(stage, keys, ledger)  # one query instead of a claim for every key that is settled

    def one(item: Work) -> StageResult:
        stored = known.get((item.key, item.input_digest))
        if stored and _whole(stored, store):
            return _again(stored, run_id)
        return settle(stage, item, compute, ledger=ledger, store=store, run_id=run_id)

    def send(results: Sequence[StageResult]) -> None:
        emit(results)
        report.results.extend(results)

    batch = Batch(send, flush)

    def over() -> bool:
        batch.drain()
        report.halted = halt is not None and halt(report)
        return report.halted

    try:
        for item, future in bounded(one, work, workers, stop=stop or (lambda: None), over=over):
            try:
                batch.add(future.result())
            except PortError as error:
                report.failed[item.key] = str(error)
    finally:
        batch.drain(least=1)
    return report


def _stored(stage: str, keys: Sequence[str], ledger: Ledger) -> dict[tuple[str, str], StageResult]:
    facts = ledger.find(StageFact, stage=stage, key=list(keys)) if keys else []
    return {(fact.key, fact.input_digest): fact.result for fact in facts}


def _whole(result: StageResult, store: ArtifactStore) -> bool:
    """Whether what the result points to is still there."""
    return result.output is None or store.has(result.output)


def _again(result: StageResult, run_id: str) -> StageResult:
    return result.model_copy(update={"cached": True, "run_id": run_id})


def settle(
    stage: str, item: Work, compute: Compute, *, ledger: Ledger, store: ArtifactStore, run_id: str
) -> StageResult:
    """The stored result of one key, or a new one, computed under a claim and recorded before it is returned.

    A result whose artifact is gone is computed again, which puts it back. Raises LedgerError when that gives another.
    """
    if item.upstream is not None:
        return _not_reached(stage, item, run_id)
    with ledger.claim(f"{stage}/{item.key}"):
        stored = ledger.find(StageFact, stage=stage, key=item.key, input_digest=item.input_digest)
        if stored and _whole(stored[0].result, store):
            return _again(stored[0].result, run_id)
        began = time.monotonic()
        token = _ROUND.set(item.retry)
        try:
            outcome = compute(item.key)
        except MalformedReply as error:
            outcome = Outcome(rejection=malformed(error))
        finally:
            _ROUND.reset(token)
        made = _record(stage, item, outcome, time.monotonic() - began, ledger=ledger, store=store, run_id=run_id)
        if stored and made.output != stored[0].result.output:
            raise LedgerError(
                f"Artifact {stored[0].result.output} of {stage}/{item.key} is gone, and computing it again gave another"
                " value, so results that were made from it cannot be kept true: restore it from a backup"
            )
        return made


def malformed(error: MalformedReply) -> Rejection:
    """What becomes of a key whose model gave no readable reply."""
    return reject(Reason.LLM_MALFORMED, str(error), problem=error.problem[:2000], reply_tail=error.raw[-1000:])


def _not_reached(stage: str, item: Work, run_id: str) -> StageResult:
    assert item.upstream is not None
    return StageResult(
        stage=stage,
        key=item.key,
        input_digest=item.input_digest,
        verdict=Verdict.NOT_REACHED,
        rejection=item.upstream.rejection,
        rejected_at=item.upstream.rejected_at or item.upstream.stage,
        run_id=run_id,
    )


def _record(
    stage: str,
    item: Work,
    outcome: Outcome,
    seconds: float,
    *,
    ledger: Ledger,
    store: ArtifactStore,
    run_id: str,
) -> StageResult:
    facts = _of_result(outcome.facts, item.input_digest)
    output = None
    if outcome.value is not None:
        data = to_json(outcome.value).encode()
        output = store.put(data)
        facts.append(ArtifactFact(sha256=output, kind=stage, size=len(data)))
    result = StageResult(
        stage=stage,
        key=item.key,
        input_digest=item.input_digest,
        verdict=Verdict.REJECTED if outcome.rejection else Verdict.ACCEPTED,
        rejection=outcome.rejection,
        rejected_at=stage if outcome.rejection else None,
        output=output,
        numbers=dict(outcome.numbers),
        seconds=round(seconds, 3),
        run_id=run_id,
    )
    facts += [EdgeFact(child=item.key, parent=parent, kind=kind) for parent, kind in outcome.parents]
    facts.append(
        StageFact(
            stage=stage,
            key=item.key,
            input_digest=item.input_digest,
            verdict=result.verdict,
            reason=outcome.rejection.reason if outcome.rejection else "",
            component=outcome.rejection.component if outcome.rejection else "",
            rejected_at=result.rejected_at or "",
            under=item.under,
            result=result,
        )
    )
    ledger.append(facts)
    return result


def _of_result(facts: Sequence[Fact], inputs: str) -> list[Fact]:
    """Attempts and trials with the result that they belong to, checks with the ids of these trials."""
    ids, found = dict[str, str](), list[Fact]()
    for fact in facts:
        if isinstance(fact, AttemptFact | TrialFact):
            stamped = fact.model_copy(update={"input_digest": inputs})
            ids[fact.fact_id] = stamped.fact_id
            found.append(stamped)
        elif isinstance(fact, CheckFact):
            found.append(fact.model_copy(update={"trial": ids.get(fact.trial, fact.trial)}))
        else:
            found.append(fact)
    return found
