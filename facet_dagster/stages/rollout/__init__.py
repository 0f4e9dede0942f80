"""Trajectories of agents: read, judged, and made into rows for training."""

from __future__ import annotations

from facet_dagster.stages.rollout.accept import VERSION, judge
from facet_dagster.stages.rollout.atif import conversation, turns
from facet_dagster.stages.rollout.rows import near_miss_row, sft_row

__all__ = ["VERSION", "conversation", "judge", "near_miss_row", "sft_row", "turns"]
