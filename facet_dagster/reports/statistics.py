"""Shares and paired differences with their intervals and tests; at 95 % where nothing else is said."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from facet_dagster.domain.outcome import Value


class Rate(Value):
    """``count`` of ``of``; the bounds are Wilson's. Without any ``of`` there is no rate."""

    count: int
    of: int
    rate: float | None
    low: float | None
    high: float | None


class Paired(Value):
    """Two yes-or-no measures of the same subjects: how often both, one alone, or none holds.

    ``difference`` is the first rate minus the second, its bounds are Newcombe's (1998, method 10: from both Wilson
    intervals and the correlation); ``p`` is the exact two-sided McNemar test. All None without subjects.
    """

    subjects: int
    both: int
    only_first: int
    only_second: int
    neither: int
    difference: float | None
    low: float | None
    high: float | None
    p: float | None


class Difference(Value):
    """One share minus another of other subjects; the bounds are Newcombe's (1998, method 10: from Wilson intervals)."""

    difference: float
    low: float
    high: float


def rate(count: int, of: int) -> Rate:
    """A share with its Wilson interval."""
    if not of:
        return Rate(count=count, of=of, rate=None, low=None, high=None)
    low, high = _wilson(count, of)
    return Rate(count=count, of=of, rate=count / of, low=low, high=high)


def paired(first: Sequence[bool], second: Sequence[bool]) -> Paired:
    """``first`` and ``second`` are in the order of the same subjects. Raises ValueError for unequal lengths."""
    pairs = list(zip(first, second, strict=True))
    a, b, c, d = (pairs.count(cell) for cell in ((True, True), (True, False), (False, True), (False, False)))
    low, high = _newcombe(a, b, c, d) if pairs else (None, None)
    return Paired(
        subjects=len(pairs),
        both=a,
        only_first=b,
        only_second=c,
        neither=d,
        difference=(b - c) / len(pairs) if pairs else None,
        low=low,
        high=high,
        p=_mcnemar(b, c) if pairs else None,
    )


def difference(count: int, of: int, before: int, of_before: int, confidence: float = 0.95) -> Difference | None:
    """``count`` of ``of`` minus ``before`` of ``of_before``; None where one of them has no subjects."""
    if not of or not of_before:
        return None
    now, then = count / of, before / of_before
    (low1, high1), (low2, high2) = _wilson(count, of, confidence), _wilson(before, of_before, confidence)
    return Difference(
        difference=now - then,
        low=now - then - sqrt((now - low1) ** 2 + (high2 - then) ** 2),
        high=now - then + sqrt((high1 - now) ** 2 + (then - low2) ** 2),
    )


def _wilson(count: int, of: int, confidence: float = 0.95) -> tuple[float, float]:
    from scipy.stats import binomtest  # half a second, which other commands should not wait for

    interval = binomtest(count, of).proportion_ci(confidence_level=confidence, method="wilson")
    return float(interval.low), float(interval.high)


def _mcnemar(only_first: int, only_second: int) -> float:
    from scipy.stats import binomtest

    discordant = only_first + only_second
    return float(binomtest(only_first, discordant, 0.5).pvalue) if discordant else 1.0


def _newcombe(a: int, b: int, c: int, d: int) -> tuple[float, float]:
    n = a + b + c + d
    first, second = (a + b) / n, (a + c) / n
    (low1, high1), (low2, high2) = _wilson(a + b, n), _wilson(a + c, n)
    phi = _correlation(a, b, c, d)

    def reach(one: float, other: float) -> float:
        return sqrt(max(0.0, one**2 - 2 * phi * one * other + other**2))

    difference = first - second
    return (
        difference - reach(first - low1, high2 - second),
        difference + reach(high1 - first, second - low2),
    )


def _correlation(a: int, b: int, c: int, d: int) -> float:
    """Of the two measures, corrected for continuity where it is positive."""
    margins = (a + b) * (c + d) * (a + c) * (b + d)
    if not margins:
        return 0.0
    product = a * d - b * c
    return (max(product - (a + b + c + d) / 2, 0.0) if product > 0 else product) / sqrt(margins)
