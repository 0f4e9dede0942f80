"""The two partitionings of the funnel: 256 buckets of skills, and seeds."""

from collections.abc import Collection, Sequence

import dagster as dg

from facet_dagster.domain.ids import bucket_keys

SKILL_BUCKETS = dg.StaticPartitionsDefinition(bucket_keys())

# One shared definition for everything from ``seed`` on: equal definitions take Dagster's identity path.
SEEDS = dg.DynamicPartitionsDefinition(name="seed")


def stretches(buckets: Sequence[str]) -> list[tuple[str, str]]:
    """First and last of each run of neighbours among ``buckets``."""
    found: list[tuple[str, str]] = []
    for bucket in sorted(buckets):
        near = bool(found) and int(bucket, 16) == int(found[-1][1], 16) + 1
        found[-1:] = [(found[-1][0], bucket)] if near else [*found[-1:], (bucket, bucket)]
    return found


def ranges(order: Sequence[str], wanted: Collection[str], settled: Collection[str], most: int) -> list[tuple[str, str]]:
    """Few ranges of ``order`` with all ``wanted`` keys, at most ``most`` keys long, and else only ``settled`` ones.

    A run takes a range of neighbours. A key that has its result costs some milliseconds to show again, a run seconds;
    one that has none must stay out, or it would be computed, or called failed.
    """
    found: list[tuple[str, str]] = []
    asked, known = frozenset(wanted), frozenset(settled)
    first = last = -1
    for place, key in enumerate(order):
        if first >= 0 and (place - first >= most or not (key in asked or key in known)):
            found.append((order[first], order[last]))
            first = -1
        if key in asked:
            first, last = (first if first >= 0 else place), place
    return [*found, (order[first], order[last])] if first >= 0 else found
