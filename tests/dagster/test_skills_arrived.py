"""The sensor asks for touched buckets only; checks and summary say what stage 1 came to."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from assets.partitions import stretches
from assets.skill_checks import no_duplicate_id, no_orphan, run_summary, survival_within_bounds
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


def ports(world: World) -> dict[str, object]:
    return {"settings": world.settings, "ledger": world.ledger, "store": world.store, "vectors": world.vectors}


def test_checks_pass_on_a_whole_corpus_and_name_an_orphan(world: World) -> None:
    everything = ports(world)
    for check in (no_orphan, no_duplicate_id):
        assert check(**everything).passed  # type: ignore[operator]
    assert survival_within_bounds(settings=world.settings, ledger=world.ledger).passed
    stray = f"folder-{'0' * 32}"
    world.vectors.upsert([Point(stray, [1.0] * 256)])
    result = no_orphan(**everything)  # type: ignore[operator]
    assert not result.passed
    assert result.metadata["orphans"].value == [stray]


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
