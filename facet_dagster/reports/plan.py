"""What N certified tasks will take: yield and cost, projected with intervals from a canary batch that ran to its end.

Two things are drawn again and again, with a fixed start: the share of seeds that become certified tasks (from its
posterior under Jeffreys' prior), and what a seed's calls cost (resampled). The part before a seed exists (hypotheses,
judgements) is spread over the pairs that the judge accepted.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import mean

from facet_dagster.domain.facts import CandidateFact, ModelCallFact, SeedFact
from facet_dagster.domain.outcome import Value, Verdict
from facet_dagster.errors import ConfigError
from facet_dagster.ports import Ledger

RESAMPLES = 2_000
LEVEL = (0.05, 0.5, 0.95)
# Terminus-2 sends the whole conversation each turn; 11.86 turns a trajectory (paper, Table 1), about 12,500 tokens a
# turn to read and 400 to write.
ROLLOUT_TOKENS = (148_000, 4_800)


class Interval(Value):
    """A projection: the middle, and bounds between which it lies in 90 of 100 resamples."""

    low: float
    middle: float
    high: float


class Canary(Value):
    """What the canary showed. ``costs`` in USD: one number a seed; ``upstream`` USD for each accepted pair."""

    seeds: int
    certified: int
    costs: tuple[float, ...]
    upstream: float
    pairs: int
    unpriced: int


class Plan(Value):
    """``cost`` is USD for ``tasks`` certified tasks with their rollouts, ``affordable`` the tasks that ``budget`` buys.

    ``pairs_missing``: accepted pairs that more skills must bring before that many seeds exist.
    """

    tasks: int
    budget: float
    canary: Canary
    share_certified: Interval
    seeds_needed: Interval
    synthesis_cost: Interval
    rollout_cost: float
    cost: Interval
    affordable: Interval
    pairs_missing: int


def canary(ledger: Ledger, batch: str, certified: Sequence[str]) -> Canary:
    """The figures of a batch. ``certified`` are keys of certified tasks. Raises ConfigError for an empty batch."""
    keys = sorted(fact.key for fact in ledger.find(SeedFact, batch=batch))
    if not keys:
        raise ConfigError(f"Batch {batch} holds no seed: ingest skills from which pairs come, then plan again")
    calls = ledger.find(ModelCallFact)
    of_seeds = {fact.key for fact in ledger.find(SeedFact)}
    accepted = {f.candidate for f in ledger.find(CandidateFact) if f.verdict is Verdict.ACCEPTED}
    if any(c.origin == "tape" for c in calls):
        raise ConfigError("Here a tape was replayed, at no cost: plan in an installation of its own (FACET_HOME)")
    upstream = sum(c.cost or 0.0 for c in calls if c.subject not in of_seeds and c.call != "probe")
    spent = {key: sum(c.cost or 0.0 for c in calls if c.subject == key) for key in keys}
    return Canary(
        seeds=len(keys),
        certified=len(set(keys) & set(certified)),
        costs=tuple(round(spent[key], 6) for key in keys),
        upstream=round(upstream / max(1, len(accepted)), 6),
        pairs=len(accepted),
        unpriced=sum(c.origin == "live" and c.cost is None for c in calls),
    )


def project(seen: Canary, *, tasks: int, budget: float, attempts: int, rollout: float) -> Plan:
    """``attempts`` rollouts a task at ``rollout`` USD each. Raises ConfigError when nothing can be projected."""
    if seen.unpriced:
        raise ConfigError(
            f"{seen.unpriced} calls of the canary have no known price: give their model one in FACET_MODELS"
        )
    if not seen.certified:
        raise ConfigError(
            f"None of the canary's {seen.seeds} seeds became a certified task: `facet funnel` counts the losses;"
            " a larger canary (--seeds) may show a yield"
        )
    shares, per_task = _resampled(seen)
    rollouts = attempts * rollout
    whole = [each + rollouts for each in per_task]
    share = _interval(shares)
    needed = Interval(low=tasks / share.high, middle=tasks / share.middle, high=tasks / max(share.low, 1e-9))
    return Plan(
        tasks=tasks,
        budget=budget,
        canary=seen,
        share_certified=share,
        seeds_needed=needed,
        synthesis_cost=_interval([tasks * each for each in per_task]),
        rollout_cost=round(tasks * rollouts, 6),
        cost=_interval([tasks * each for each in whole]),
        affordable=_interval([budget / each if each else float(tasks) for each in whole]),
        pairs_missing=max(0, round(needed.middle) - seen.pairs),
    )


def _resampled(seen: Canary) -> tuple[list[float], list[float]]:
    """Shares of certified seeds, and USD for a certified task."""
    chance = random.Random("canary")  # noqa: S311 - statistics
    average = mean(seen.costs)
    shares, per_task = [], []
    for _ in range(RESAMPLES):
        # The share has no upper or lower end that so few seeds could prove: a draw from its posterior, not a recount.
        share = chance.betavariate(seen.certified + 0.5, seen.seeds - seen.certified + 0.5)
        shares.append(share)
        spent = (sum(chance.choices(seen.costs, k=len(seen.costs))) + average) / (len(seen.costs) + 1)
        per_task.append((spent + seen.upstream) / share)
    return shares, per_task


def _interval(values: Sequence[float]) -> Interval:
    ordered = sorted(values)
    low, middle, high = (ordered[min(len(ordered) - 1, int(level * len(ordered)))] for level in LEVEL)
    return Interval(low=round(low, 6), middle=round(middle, 6), high=round(high, 6))
