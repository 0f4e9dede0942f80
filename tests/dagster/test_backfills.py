"""Ranges of partitions in one process on a real instance: what is recorded, cancelled, retried, and done only once."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.loader import LoadingContextForTest

from assets import _pulse
from assets._dagster import fan_out, stage_asset
from assets.partitions import SEEDS, ranges
from facet_dagster.adapters.memory import MemoryArtifactStore, MemoryLedger
from facet_dagster.domain.facts import StageFact
from facet_dagster.domain.ids import digest
from facet_dagster.domain.outcome import Reason, Value, reject
from facet_dagster.errors import SandboxError
from facet_dagster.funnel import Compute, Outcome, Stage
from sensors.retry_failed import failures, requests
from tests.conftest import Databases
from tests.integration.test_dagster_storage import ROOT, engines, write_home

pytestmark = pytest.mark.postgres
KEYS = [f"261130-{n:03x}" for n in range(30)]
START, END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"


class Number(Value):
    n: int


class World:
    """Two stages over seeds whose work is given by the test; ``mark`` keeps their names apart."""

    def __init__(self, found: dg.DagsterInstance, mark: str, version: str = "1") -> None:
        self.instance, self.version = found, version
        self.first, self.second = f"first_{mark}", f"second_{mark}"
        self.ledger, self.store = MemoryLedger(), MemoryArtifactStore()
        self.began: list[tuple[str, float]] = []
        self.work: Compute = self.number
        found.add_dynamic_partitions("seed", KEYS)

    @staticmethod
    def number(key: str) -> Outcome:
        return Outcome(Number(n=int(key[-3:], 16)))

    def stage(self, name: str = "") -> Stage:
        first = Stage(self.first, self.version)
        return Stage(self.second, "1", (first,)) if name == self.second else first

    def asset(self, name: str = "") -> dg.AssetsDefinition:
        @stage_asset(
            name or self.first,
            deps=[self.first] if name == self.second else [],
            group="s4_tasks",
            version=self.stage(name).version,
            partitions=SEEDS,
            pool=None,
            batch=500,
        )
        def body(context: dg.AssetExecutionContext) -> Iterator[dg.Output[None]]:
            """Test."""
            yield from fan_out(context, self.stage(name), self._one, ledger=self.ledger, store=self.store, workers=2)

        return body

    def _one(self, key: str) -> Outcome:
        self.began.append((key, time.monotonic()))
        return self.work(key)

    def run(self, name: str = "", first: str = KEYS[0], last: str = KEYS[-1], **more: Any) -> Any:
        tags = {START: first, END: last, **more.pop("tags", {})}
        return dg.materialize([self.asset(name)], instance=self.instance, tags=tags, raise_on_error=False, **more)

    def status(self, run_id: str) -> dg.DagsterRunStatus:
        run = self.instance.get_run_by_id(run_id)
        assert run is not None
        return run.status

    def shown(self) -> set[str]:
        return set(self.instance.get_materialized_partitions(dg.AssetKey(self.first)))


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory, databases: Databases) -> tuple[Path, str]:
    """Home folder and database of one instance."""
    home, url = tmp_path_factory.mktemp("dagster"), databases.new()
    write_home(home, url)
    return home, url


@pytest.fixture(scope="module")
def shared(homes: tuple[Path, str]) -> Iterator[dg.DagsterInstance]:
    """One for all tests: to make an instance takes longer than any of them."""
    with dg.DagsterInstance.from_config(str(homes[0])) as found:
        yield found
        for engine in engines(found):
            engine.dispose()


@pytest.fixture
def world(shared: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> World:
    monkeypatch.setenv("DAGSTER_EVENT_BATCH_SIZE", "1000")
    monkeypatch.setattr(_pulse, "LOOK_SECONDS", 0.2)
    return World(shared, digest(request.node.name)[:6])


def test_a_range_has_a_materialization_and_a_check_for_each_seed(world: World) -> None:
    bad = set(KEYS[::3])
    world.work = lambda key: Outcome(
        Number(n=1), rejection=reject(Reason.TASK_FLAKY, "It blinks.") if key in bad else None
    )
    for _ in range(2):
        assert world.run().success
        assert world.shown() == set(KEYS)
        checks = {
            record.partition: record.status.value
            for record in world.instance.event_log_storage.get_asset_check_execution_history(
                dg.AssetCheckKey(dg.AssetKey(world.first), "accepted"), limit=30
            )
        }
        assert checks == {key: "FAILED" if key in bad else "SUCCEEDED" for key in KEYS}
    assert len(world.began) == len(KEYS)
    [seen] = world.instance.fetch_observations(dg.AssetKey(world.first), limit=1).records
    assert seen.asset_observation is not None
    counts = {name: value.value for name, value in seen.asset_observation.metadata.items()}
    assert (counts["accepted"], counts["rejected"], counts["cached"]) == (20, 10, 30)


def stale(world: World, *assets: dg.AssetsDefinition) -> dict[str, StaleStatus]:
    graph = dg.Definitions(assets=list(assets)).resolve_asset_graph()
    resolver = CachingStaleStatusResolver(world.instance, graph, LoadingContextForTest(world.instance))
    return {a.key.to_user_string(): resolver.get_status(a.key, KEYS[0]) for a in assets}


def test_a_new_code_version_makes_a_seed_stale_and_what_is_below_it_when_its_value_changed(world: World) -> None:
    world.run()
    world.run(world.second)
    world.run()  # shown again, nothing changed
    assert set(stale(world, world.asset(), world.asset(world.second)).values()) == {StaleStatus.FRESH}
    world.version = "2"
    assert stale(world, world.asset(), world.asset(world.second))[world.first] is StaleStatus.STALE
    world.work = lambda key: Outcome(Number(n=-1))
    world.run()
    found = stale(world, world.asset(), world.asset(world.second))
    assert (found[world.first], found[world.second]) == (StaleStatus.FRESH, StaleStatus.STALE)


def test_a_cancelled_backfill_begins_nothing_more_and_keeps_what_was_settled(world: World) -> None:
    backfill = PartitionBackfill(
        backfill_id="b", status=BulkActionStatus.REQUESTED, from_failure=False, tags={}, backfill_timestamp=0.0
    )
    world.instance.add_backfill(backfill)
    cancelled: list[float] = []

    def work(key: str) -> Outcome:
        time.sleep(0.3)
        if len(world.began) == 6 and not cancelled:
            cancelled.append(time.monotonic())
            world.instance.update_backfill(backfill.with_status(BulkActionStatus.CANCELING))
        return Outcome(Number(n=1))

    world.work = work
    done = world.run(tags={"dagster/backfill": "b"})
    assert world.status(done.run_id) is dg.DagsterRunStatus.CANCELED
    assert max(at for _, at in world.began) - cancelled[0] < 10
    assert 6 <= len(world.began) < len(KEYS)
    assert world.shown() == {key for key, _ in world.began} == {f.key for f in world.ledger.find(StageFact)}
    late = world.run(tags={"dagster/backfill": "b"})  # one that the daemon had planned
    assert world.status(late.run_id) is dg.DagsterRunStatus.CANCELED
    assert len(world.began) == len(world.shown())


# A run in a process of its own, slow enough to meet the other one; it says what it computed.
RUN = """
import sys, time
import dagster as dg
from facet_dagster.adapters.fsspec_artifact_store import FsspecArtifactStore
from facet_dagster.adapters.postgres_ledger import PostgresLedger
from tests.dagster.test_backfills import World

def work(key):
    time.sleep(0.1)
    return World.number(key)

with dg.DagsterInstance.from_config(sys.argv[1]) as instance:
    world = World(instance, "twice")
    world.ledger, world.store = PostgresLedger(sys.argv[2]), FsspecArtifactStore(sys.argv[1] + "/artifacts")
    world.work = work
    print("ready", flush=True)
    sys.stdin.readline()
    assert world.run().success
    print(*(key for key, _ in world.began))
"""


def test_two_backfills_over_the_same_seeds_do_each_unit_once(
    world: World, homes: tuple[Path, str], ledger_url: str
) -> None:
    command = [sys.executable, "-c", RUN, str(homes[0]), ledger_url]
    pipe = subprocess.PIPE
    runs = [subprocess.Popen(command, cwd=ROOT, text=True, stdin=pipe, stdout=pipe) for _ in range(2)]
    for run in runs:
        assert run.stdout is not None
        assert run.stdout.readline() == "ready\n"
    for run in runs:
        assert run.stdin is not None
        run.stdin.write("go\n")
        run.stdin.flush()
    computed = [run.communicate(timeout=300)[0].split() for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    assert sorted(computed[0] + computed[1]) == KEYS
    assert set(world.instance.get_materialized_partitions(dg.AssetKey("first_twice"))) == set(KEYS)


def test_failed_seeds_are_tried_again_in_one_run_and_no_other_is_computed(world: World) -> None:
    lost = {KEYS[2], KEYS[9], KEYS[27]}

    def work(key: str) -> Outcome:
        if key in lost:
            raise SandboxError("the engine is away", transient=True)
        return Outcome(Number(n=1))

    world.work = work
    assert not world.run().success
    found = failures(world.instance, world.stage(), world.ledger)
    assert set(found) == lost
    [request] = requests(world.instance, world.stage(), found, world.ledger)
    assert (request.tags[START], request.tags[END]) == (KEYS[2], KEYS[27])
    world.began.clear()
    world.work = lambda key: Outcome(Number(n=1))
    assert world.run(first=KEYS[2], last=KEYS[27], tags={"facet/try": "1"}).success
    assert {key for key, _ in world.began} == lost
    assert failures(world.instance, world.stage(), world.ledger) == {}


def test_a_deleted_artifact_is_put_back_or_the_run_says_that_it_cannot(world: World) -> None:
    world.run()
    [fact] = world.ledger.find(StageFact, key=KEYS[4])
    assert fact.result.output
    del world.store._blobs[fact.result.output]
    world.began.clear()
    assert world.run().success
    assert [key for key, _ in world.began] == [KEYS[4]]
    assert world.store.has(fact.result.output)
    del world.store._blobs[fact.result.output]
    world.work = lambda key: Outcome(Number(n=-1))
    done = world.run()
    assert not done.success
    told = world.instance.get_records_for_run(done.run_id, of_type=dg.DagsterEventType.STEP_FAILURE).records
    assert "restore it from a backup" in str(told[0].event_log_entry)


@pytest.mark.parametrize(
    ("wanted", "settled", "found"),
    [
        ("", "abcdef", []),
        ("bf", "acde", [("b", "f")]),
        ("bf", "ace", [("b", "b"), ("f", "f")]),
        ("abcdef", "", [("a", "d"), ("e", "f")]),
        ("af", "bcde", [("a", "a"), ("f", "f")]),
    ],
    ids=["nothing", "bridged", "one between has no result", "as long as allowed", "too far apart"],
)
def test_scattered_keys_make_few_ranges(wanted: str, settled: str, found: list[tuple[str, str]]) -> None:
    most = 4 if wanted != "bf" else 10
    assert ranges("abcdef", wanted, settled, most) == found
