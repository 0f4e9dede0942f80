"""The asset graph: what is in it, and the traps that it must not fall into."""

from __future__ import annotations

import dagster as dg
import pytest

from facet_dagster.definitions import defs
from facet_dagster.domain.ids import BUCKETS

FUNNEL = (
    "skills",
    "skill_index",
    "scenario_hypotheses",
    "seed_candidates",
    "seed_selection",
    "seed",
    "scenario",
    "first_build",
    "environment",
    "task_draft",
    "first_validation",
    "task",
    "certificate",
    "rollouts",
    "trajectories",
    "sft_dataset",
    "funnel_report",
    "yields",
    "release_health",
    "release",
    "rejected_tasks",
    "report",
    "evaluation",
)
SEED_ASSETS = FUNNEL[5:15]
BUCKET_ASSETS = FUNNEL[:4]


@pytest.fixture(scope="module")
def graph() -> dg.AssetGraph:  # type: ignore[name-defined]
    return defs.resolve_asset_graph()


def node(graph, name):  # type: ignore[no-untyped-def]
    return graph.get(dg.AssetKey(name))


def test_all_definitions_load_and_are_the_funnel(graph) -> None:  # type: ignore[no-untyped-def]
    dg.Definitions.validate_loadable(defs)
    assert {key.to_user_string() for key in graph.get_all_asset_keys()} == set(FUNNEL)


@pytest.mark.parametrize("name", SEED_ASSETS)
def test_seed_assets_share_one_dynamic_definition(graph, name: str) -> None:  # type: ignore[no-untyped-def]
    assert node(graph, name).partitions_def.name == "seed"


@pytest.mark.parametrize("name", BUCKET_ASSETS)
def test_skill_assets_have_256_buckets(graph, name: str) -> None:  # type: ignore[no-untyped-def]
    assert len(node(graph, name).partitions_def.get_partition_keys()) == BUCKETS


def test_no_two_partitioned_stages_share_a_backfill_policy(graph) -> None:  # type: ignore[no-untyped-def]
    sizes = [node(graph, name).backfill_policy.max_partitions_per_run for name in (*BUCKET_ASSETS, *SEED_ASSETS)]
    assert len(set(sizes)) == len(sizes)


@pytest.mark.parametrize("name", [*BUCKET_ASSETS, *SEED_ASSETS])
def test_every_partitioned_stage_has_the_accepted_check_and_a_code_version(graph, name: str) -> None:  # type: ignore[no-untyped-def]
    whole = {"skills": {"survival_within_bounds"}, "skill_index": {"no_orphan", "no_duplicate_id"}}
    assert {key.name for key in node(graph, name).check_keys} == {"accepted"} | whole.get(name, set())
    assert node(graph, name).code_version
    assert node(graph, name).description
