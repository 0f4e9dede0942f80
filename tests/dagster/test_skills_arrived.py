"""The sensor asks for touched buckets only; checks and summary say what stage 1 came to."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from assets import s1_skills
from assets.partitions import stretches
from assets.skill_checks import check_index, check_survival, run_summary
from facet_dagster.domain.ids import bucket_keys, bucket_of
from facet_dagster.funnel import plan
from facet_dagster.pipeline.graph import skill_stages
from facet_dagster.ports import Point
from facet_dagster.reports.corpus_health import survival_of
from sensors.skills_arrived import skills_arrived
from tests.unit.test_corpus import World, body

START, END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    for number in range(12):
        made.add(f"skill-{number}", body(number))
    made.run()
    return made


def tick(world: World) -> tuple[set[str], set[str]]:
    """Assets and buckets that one tick asks for."""
    with dg.DagsterInstance.ephemeral() as instance:
        context = dg.build_sensor_context(
            instance, resources={"settings": world.settings, "ledger": world.ledger}, sensor_name="skills_arrived"
        )
        found = skills_arrived(context)
    requests = found.run_requests if isinstance(found, dg.SensorResult) else []
    assert len({request.run_key for request in requests}) == len(requests)
    buckets = {key for request in requests for key in bucket_keys() if request.tags[START] <= key <= request.tags[END]}
    return {key.to_user_string() for request in requests for key in request.asset_selection}, buckets


def test_it_is_off_until_somebody_turns_it_on() -> None:
    assert skills_arrived.default_status is dg.DefaultSensorStatus.STOPPED


def test_nothing_new_asks_for_nothing(world: World) -> None:
    assert tick(world) == (set(), set())


def test_new_skills_ask_for_their_buckets_first_curated_then_indexed(world: World) -> None:
    from facet_dagster.pipeline import skills

    world.add("new-one", body(50))
    world.add("new-two", body(51))
    skills.ingest(world.sources, ledger=world.ledger, store=world.store)
    wanted = {bucket_of(world.id_of(name)) for name in ("new-one", "new-two")}
    assert tick(world) == ({"skills"}, wanted)
    world.curate()
    assert tick(world) == ({"skill_index"}, wanted)
    world.index()
    assert tick(world) == (set(), set())


@pytest.mark.parametrize(
    ("buckets", "found"),
    [
        ([], []),
        (["00"], [("00", "00")]),
        (["0a", "09", "0b", "ff", "fe", "20"], [("09", "0b"), ("20", "20"), ("fe", "ff")]),
    ],
)
def test_neighbours_share_a_run(buckets: list[str], found: list[tuple[str, str]]) -> None:
    assert stretches(buckets) == found


def test_checks_pass_on_a_whole_corpus_and_name_an_orphan(world: World) -> None:
    ports = (world.settings, world.ledger, world.store, world.vectors)
    assert all(found.passed for found in [*check_index(*ports), *check_survival(world.settings, world.ledger)])
    stray = f"folder-{'0' * 32}"
    world.vectors.upsert([Point(stray, [1.0] * 256)])
    orphan, double = check_index(*ports)
    assert (orphan.passed, double.passed) == (False, True)
    assert orphan.metadata["orphans"].value == [stray]


@pytest.mark.parametrize("asset", ["skills", "skill_index"])
def test_a_run_logs_the_checks_of_the_whole(world: World, asset: str) -> None:
    """A check that stands beside an asset without outputs would be planned and skipped."""
    ports = {"settings": world.settings, "ledger": world.ledger, "store": world.store, "vectors": world.vectors}
    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize(
            [getattr(s1_skills, asset)],
            instance=instance,
            partition_key="00",
            resources={**ports, "embedder": world.embedder},
        )
        assert done.success
        whole = [found for found in done.get_asset_check_evaluations() if found.check_name != "accepted"]
        names = {"skills": {"survival_within_bounds"}, "skill_index": {"no_orphan", "no_duplicate_id"}}
        assert {found.check_name for found in whole} == names[asset]
        assert all(found.passed for found in whole)
        if asset == "skills":
            [seen] = instance.fetch_observations(dg.AssetKey("skills"), limit=5).records
            assert {"plot", "kept", "dropped"} <= set(seen.asset_observation.metadata)


def test_survival_counts_copies_as_survivors_and_needs_some_skills_to_judge() -> None:
    found = survival_of(
        [{"collected": 200, "kept": 120, "dropped/skill.near_duplicate": 30, "dropped/skill.empty": 50}]
    )
    assert (found.passed, found.share, found.within_bounds) == (150, 0.75, True)
    assert not survival_of([{"collected": 200, "kept": 149, "dropped/skill.unsafe": 51}]).within_bounds
    assert survival_of([{"collected": 9, "kept": 1, "dropped/skill.unsafe": 8}]).within_bounds


def test_the_summary_of_a_run_has_counts_reasons_and_bars(world: World) -> None:
    world.add("empty", "")
    world.run()
    stage = skill_stages(world.settings, world.ledger).skills
    keys = [item.input_digest for item in plan(stage, bucket_keys(), world.ledger).work]
    assert len(keys) == 256
    shown = run_summary(world.curate().results)
    assert shown["collected"].value == 13
    assert shown["dropped"].value == {"skill.empty": 1}
    assert "█" in shown["plot"].value
