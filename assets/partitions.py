"""The two partitionings of the funnel: 256 buckets of skills, and seeds."""

from collections.abc import Sequence

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
