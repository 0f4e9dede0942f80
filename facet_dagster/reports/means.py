"""Means of repeated attempts on the same tasks: those on one task resemble each other, so tasks are what is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from facet_dagster.domain.outcome import Value

DRAWS, SEED = 10_000, 20_260
Z = 1.959964  # 95 %


class Mean(Value):
    """Share of solved attempts, every task counting alike, with a 95 % interval.

    The interval is Wilson's with the effective sample size (Korn and Graubard 1998): between the number of tasks, when
    attempts on a task always agree, and that of attempts, when they know nothing of each other. None without tasks.
    """

    tasks: int
    attempts: int
    mean: float | None
    low: float | None
    high: float | None


class Difference(Value):
    """``second`` minus ``first`` on the same tasks: bounds by paired bootstrap over tasks (percentiles, 10,000 draws).

    ``p`` is two-sided, by random exchange of the two within tasks. None without tasks in common.
    """

    tasks: int
    difference: float | None
    low: float | None
    high: float | None
    p: float | None


def mean(rewards: Sequence[Sequence[int]]) -> Mean:
    """``rewards`` holds the attempts on each task; tasks without any are left out."""
    kept = [task for task in rewards if task]
    attempts = sum(map(len, kept))
    if not kept:
        return Mean(tasks=0, attempts=0, mean=None, low=None, high=None)
    shares = np.array([sum(task) / len(task) for task in kept])
    centre = float(shares.mean())
    variance = float(shares.var(ddof=1)) / len(kept) if len(kept) > 1 else 0.0
    effective = centre * (1 - centre) / variance if variance else 0.0
    low, high = _wilson(centre, min(max(effective, len(kept)), attempts))
    return Mean(tasks=len(kept), attempts=attempts, mean=centre, low=low, high=high)


def difference(first: Sequence[Sequence[int]], second: Sequence[Sequence[int]]) -> Difference:
    """Both in the order of the same tasks; one without an attempt on either side is left out. Raises ValueError."""
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a and b]
    if not pairs:
        return Difference(tasks=0, difference=None, low=None, high=None, p=None)
    gains = np.array([sum(b) / len(b) - sum(a) / len(a) for a, b in pairs])
    draw = np.random.default_rng(SEED)
    drawn = gains[draw.integers(len(gains), size=(DRAWS, len(gains)))].mean(axis=1)
    signs = draw.choice((-1.0, 1.0), size=(DRAWS, len(gains)))
    extreme = np.abs((signs * gains).mean(axis=1)) >= abs(gains.mean()) - 1e-12
    low, high = np.percentile(drawn, (2.5, 97.5))
    p = (1 + int(extreme.sum())) / (1 + DRAWS)
    return Difference(tasks=len(gains), difference=float(gains.mean()), low=float(low), high=float(high), p=p)


def _wilson(share: float, of: float) -> tuple[float, float]:
    middle = (share + Z**2 / (2 * of)) / (1 + Z**2 / of)
    reach = Z / (1 + Z**2 / of) * sqrt(share * (1 - share) / of + Z**2 / (4 * of**2))
    return max(0.0, middle - reach), min(1.0, middle + reach)
