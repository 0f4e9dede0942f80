"""How far two distributions lie apart."""

from __future__ import annotations

from collections.abc import Mapping
from math import log2, sqrt

from facet_dagster.domain.outcome import Value


class Distance(Value):
    """Between two distributions, both 0 (equal) to 1 (nothing in common).

    ``jensen_shannon`` is the distance, the root of the divergence in bits; ``total_variation`` half the sum of all
    differences. ``apart`` names what contributes most, first minus second.
    """

    jensen_shannon: float
    total_variation: float
    apart: tuple[tuple[str, float], ...]


SHOWN = 8


def distance(first: Mapping[str, float], second: Mapping[str, float]) -> Distance | None:
    """Of two maps from names to weights, which need not sum to 1. None when one of them is empty."""
    one, other = _shares(first), _shares(second)
    if not one or not other:
        return None
    names = sorted({*one, *other})
    differences = {name: one.get(name, 0.0) - other.get(name, 0.0) for name in names}
    divergence = sum(
        _half(one.get(n, 0.0), other.get(n, 0.0)) + _half(other.get(n, 0.0), one.get(n, 0.0)) for n in names
    )
    most = sorted(differences.items(), key=lambda item: (-abs(item[1]), item[0]))[:SHOWN]
    return Distance(
        jensen_shannon=min(1.0, sqrt(max(0.0, divergence))),
        total_variation=min(1.0, sum(map(abs, differences.values())) / 2),
        apart=tuple((name, share) for name, share in most if share),
    )


def _shares(weights: Mapping[str, float]) -> dict[str, float]:
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items() if weight > 0} if total > 0 else {}


def _half(p: float, q: float) -> float:
    return p / 2 * log2(2 * p / (p + q)) if p else 0.0
