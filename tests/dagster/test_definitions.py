"""The asset graph: what is in it, and the traps that it must not fall into."""

from __future__ import annotations

import dagster as dg
import pytest

from facet_dagster.adapters.memory import MemoryLedger
from facet_dagster.connect import open_counter
from facet_dagster.definitions import defs
from facet_dagster.domain.ids import BUCKETS
from facet_dagster.pipeline.versions import code_versions
from facet_dagster.settings import load_settings

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


@pytest.mark.parametrize("name", FUNNEL)
def test_every_asset_says_who_is_asked_and_what_it_uses(graph, name: str) -> None:  # type: ignore[no-untyped-def]
    [owner] = node(graph, name).owners
    assert owner.startswith("team:")
    assert node(graph, name).kinds
    assert len(node(graph, name).kinds) <= 3


@pytest.mark.parametrize("name", SEED_ASSETS)
def test_the_launchpad_explains_a_run(name: str) -> None:
    job = defs.get_repository_def().get_implicit_job_def_for_assets([dg.AssetKey(name)])
    assert job is not None
    field = job.get_node_named(name).definition.config_field.config_type.fields["workers"]
    assert (field.default_value, "FACET_WORKERS" in field.description) == (0, True)


def test_a_setting_changes_the_code_versions_of_the_stages_that_depend_on_it() -> None:
    settings = load_settings()
    slower = settings.model_copy(update={"trial_seconds": settings.trial_seconds + 1})
    old, new = (code_versions(found, MemoryLedger(), "t") for found in (settings, slower))
    assert {name for name in old if old[name] != new[name]} == {"first_validation", "task", "certificate"}
    assert set(old) == set(FUNNEL[:15])


def test_assets_have_the_code_version_of_the_settings(graph) -> None:  # type: ignore[no-untyped-def]
    wanted = code_versions(load_settings(), MemoryLedger(), open_counter(load_settings()).name)
    assert {name: node(graph, name).code_version for name in wanted} == wanted
