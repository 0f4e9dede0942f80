"""The two partitionings of the funnel: 256 buckets of skills, and seeds."""

import dagster as dg

from facet_dagster.domain.ids import bucket_keys

SKILL_BUCKETS = dg.StaticPartitionsDefinition(bucket_keys())

# One shared definition for everything from ``seed`` on: equal definitions take Dagster's identity path.
SEEDS = dg.DynamicPartitionsDefinition(name="seed")
