"""Attempts of agents: what came of them task by task, and in all (paper, section 4; Figure 2a)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from facet_dagster.domain.facts import SeedFact
from facet_dagster.domain.outcome import Value
from facet_dagster.domain.rollout import Attempt, Judged, RolloutProtocol, Rollouts, Trajectories
from facet_dagster.funnel import Memo, current
from facet_dagster.pipeline.rollouts import protocol_of, rollout_stages
from facet_dagster.ports import ArtifactStore, Ledger
from facet_dagster.reports.statistics import Rate, rate
from facet_dagster.settings import Settings


class Line(Value):
    """One attempt. ``reward`` is None where the verifier gave none; ``reasons`` are those against training on it."""

    key: str
    number: int
    reward: int | None
    checks: int
    missed: tuple[str, ...]
    turns: int
    commands: int
    tokens: int
    cost: float | None
    seconds: float
    accepted: bool
    reasons: tuple[str, ...]
    what: tuple[str, ...]


class RolloutReport(Value):
    """All current attempts under one protocol. ``solved`` is of the judged attempts, ``checks`` of their checks.

    ``missed`` maps how many checks a failed attempt missed to how many attempts did; ``reasons`` count what speaks
    against training on an attempt.
    """

    protocol: RolloutProtocol
    tokenizer: str
    tasks: int
    attempts: int
    unjudged: int
    solved: Rate
    tasks_solved: Rate
    checks: Rate
    near_misses: int
    missed: dict[int, int]
    accepted: int
    reasons: dict[str, int]
    lines: tuple[Line, ...]


NEAR = 2  # checks that a near-miss may have missed (paper, Figure 2a: 54 % of failures miss one or two)


class Judgement(Value):
    """A task's attempt with what was made of it."""

    seed: str
    attempt: Attempt
    judged: Judged


def judgements(
    settings: Settings,
    tokenizer: str,
    ledger: Ledger,
    store: ArtifactStore,
    batch: str = "",
    memo: Memo | None = None,
) -> Iterator[Judgement]:
    """Every current attempt, by seed and number. ``memo``: results of these seeds that are known already."""
    keys = sorted(fact.key for fact in ledger.find(SeedFact) if batch in ("", fact.batch))
    stages, memo = rollout_stages(settings, tokenizer), Memo() if memo is None else memo
    made, judged = (current(stage, keys, ledger, memo) for stage in stages)
    for key in keys:
        if key in judged and (sha := judged[key].output) and (of := made[key].output):
            found = Trajectories.model_validate_json(store.get(sha))
            attempts = Rollouts.model_validate_json(store.get(of)).attempts
            for attempt, one in zip(attempts, found.judged, strict=True):
                yield Judgement(seed=key, attempt=attempt, judged=one)


def near_miss(attempt: Attempt) -> bool:
    """Failed by one or two checks, and passed some."""
    return attempt.reward == 0 and 1 <= len(attempt.missed) <= NEAR and len(attempt.missed) < len(attempt.checks)


def rollout_report(
    settings: Settings, tokenizer: str, ledger: Ledger, store: ArtifactStore, batch: str = ""
) -> RolloutReport:
    """Figures over the current attempts."""
    found = list(judgements(settings, tokenizer, ledger, store, batch))
    judged = [one for one in found if one.attempt.reward is not None]
    seeds = {one.seed for one in judged}
    solved = [one for one in judged if one.attempt.reward == 1]
    failed = [one.attempt for one in judged if one.attempt.reward == 0]
    checks = sum(len(one.attempt.checks) for one in judged)
    passed = checks - sum(len(one.attempt.missed) for one in judged)
    return RolloutReport(
        protocol=protocol_of(settings),
        tokenizer=tokenizer,
        tasks=len({one.seed for one in found}),
        attempts=len(found),
        unjudged=len(found) - len(judged),
        solved=rate(len(solved), len(judged)),
        tasks_solved=rate(len({one.seed for one in solved}), len(seeds)),
        checks=rate(passed, checks),
        near_misses=sum(near_miss(attempt) for attempt in failed),
        missed=dict(sorted(Counter(len(attempt.missed) for attempt in failed).items())),
        accepted=sum(one.judged.accepted for one in found),
        reasons=dict(Counter(str(reason) for one in found for reason in one.judged.reasons).most_common()),
        lines=tuple(map(_line, found)),
    )


def _line(one: Judgement) -> Line:
    attempt = one.attempt
    return Line(
        key=one.seed,
        number=attempt.number,
        reward=attempt.reward,
        checks=len(attempt.checks),
        missed=attempt.missed,
        turns=attempt.turns,
        commands=attempt.commands,
        tokens=one.judged.tokens,
        cost=attempt.cost,
        seconds=attempt.seconds,
        accepted=one.judged.accepted,
        reasons=tuple(map(str, one.judged.reasons)),
        what=one.judged.what,
    )
