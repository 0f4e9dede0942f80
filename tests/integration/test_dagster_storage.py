"""Dagster's storage class on a real instance and a real PostgreSQL. It rests on internals of the pinned release."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
import sqlalchemy as sa
import yaml

from facet_dagster.adapters.postgres_ledger import PostgresLedger
from facet_dagster.domain.facts import ArtifactFact
from resources.dagster_storage import CachedKeysEventLogStorage, FacetPostgresStorage

pytestmark = pytest.mark.postgres

ROOT = Path(__file__).resolve().parents[2]
SEEDS = dg.DynamicPartitionsDefinition(name="seed")


@dg.asset(partitions_def=SEEDS, backfill_policy=dg.BackfillPolicy.single_run())
def tiny(context: dg.AssetExecutionContext) -> None:
    for key in context.partition_keys:
        context.log_event(dg.AssetMaterialization("tiny", partition=key, metadata={"size": len(key)}))


def write_home(home: Path, url: str) -> None:
    custom = {"module": "resources.dagster_storage", "class": "FacetPostgresStorage", "config": {"postgres_url": url}}
    config = {"storage": {"custom": custom}, "telemetry": {"enabled": False}}
    (home / "dagster.yaml").write_text(yaml.safe_dump(config))


@pytest.fixture
def instance(tmp_path: Path, postgres_url: str) -> Iterator[dg.DagsterInstance]:
    write_home(tmp_path, postgres_url)
    with dg.DagsterInstance.from_config(str(tmp_path)) as found:
        yield found
        for engine in engines(found):
            engine.dispose()


def engines(instance: dg.DagsterInstance) -> list[sa.Engine]:
    """Of runs, events and schedules."""
    return [part._engine for part in (instance.run_storage, instance.event_log_storage, instance.schedule_storage)]


def in_process(code: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, cwd=ROOT)


def sessions(url: str) -> int:
    """How many sessions this database has seen so far."""
    engine = sa.create_engine(sa.make_url(url).set(database="postgres"), poolclass=sa.NullPool)
    count = sa.text("SELECT sessions FROM pg_stat_database WHERE datname = :name")
    with engine.connect() as connection:
        return int(connection.execute(count, {"name": sa.make_url(url).database}).scalar_one())


def test_dagster_yaml_gives_our_class(instance: dg.DagsterInstance) -> None:
    assert type(instance.event_log_storage) is CachedKeysEventLogStorage
    assert type(instance.get_ref().storage) is FacetPostgresStorage


def test_a_partitioned_run_is_recorded(instance: dg.DagsterInstance) -> None:
    keys = [f"261130-{n:02x}" for n in range(20)]
    instance.add_dynamic_partitions("seed", keys)
    span = {"dagster/asset_partition_range_start": keys[0], "dagster/asset_partition_range_end": keys[-1]}
    result = dg.materialize([tiny], instance=instance, tags=span)
    assert result.success
    assert instance.get_materialized_partitions(dg.AssetKey("tiny")) == set(keys)
    run = instance.get_run_by_id(result.run_id)
    assert run is not None
    assert run.status is dg.DagsterRunStatus.SUCCESS


def test_all_three_storages_keep_their_connections(instance: dg.DagsterInstance) -> None:
    assert [type(engine.pool) for engine in engines(instance)] == [sa.QueuePool] * 3


def test_many_operations_share_one_session(instance: dg.DagsterInstance, postgres_url: str) -> None:
    instance.add_dynamic_partitions("seed", ["k"])
    before = settled_sessions(postgres_url)
    for number in range(100):
        assert not instance.has_dynamic_partition("seed", f"absent {number}")
        assert instance.get_runs(limit=1) == []
    assert settled_sessions(postgres_url) - before <= 2


def settled_sessions(url: str) -> int:
    """The server writes its counters with a delay, so ask until they stand still."""
    last, same = sessions(url), 0
    while same < 4:
        time.sleep(0.25)
        now = sessions(url)
        last, same = now, same + 1 if now == last else 0
    return last


def test_known_keys_are_answered_without_the_database(instance: dg.DagsterInstance) -> None:
    keys = [f"k{n}" for n in range(1000)]
    instance.add_dynamic_partitions("seed", keys)
    assert instance.has_dynamic_partition("seed", keys[0])
    statements: list[str] = []
    engine = engines(instance)[1]
    sa.event.listen(engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    assert all(instance.has_dynamic_partition("seed", key) for key in keys)
    assert len(statements) < 100
    assert not instance.has_dynamic_partition("seed", "absent")
    assert len(statements) > 0


ADD = """
import sys, dagster as dg
with dg.DagsterInstance.from_config(sys.argv[1]) as instance:
    instance.add_dynamic_partitions("seed", [sys.argv[2]])
"""


def test_a_key_of_another_process_is_seen_at_once(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    instance.add_dynamic_partitions("seed", ["mine"])
    assert instance.has_dynamic_partition("seed", "mine")
    assert not instance.has_dynamic_partition("seed", "theirs")
    in_process(ADD, str(tmp_path), "theirs")
    assert instance.has_dynamic_partition("seed", "theirs")


def test_keys_are_kept_apart_by_definition(instance: dg.DagsterInstance) -> None:
    instance.add_dynamic_partitions("seed", ["k"])
    assert instance.has_dynamic_partition("seed", "k")
    assert not instance.has_dynamic_partition("other", "k")


def test_a_key_that_this_process_deletes_is_gone_at_once(instance: dg.DagsterInstance) -> None:
    instance.add_dynamic_partitions("seed", ["a", "b"])
    assert instance.has_dynamic_partition("seed", "a")
    instance.delete_dynamic_partition("seed", "a")
    assert not instance.has_dynamic_partition("seed", "a")
    assert instance.has_dynamic_partition("seed", "b")


def test_the_web_server_may_tune_it_again(instance: dg.DagsterInstance) -> None:
    """What Dagster's web server does at its start must not lose the key cache."""
    instance.optimize_for_webserver(statement_timeout=5000, pool_recycle=3600, max_overflow=5)
    assert type(instance.event_log_storage) is CachedKeysEventLogStorage
    assert [type(engine.pool) for engine in engines(instance)] == [sa.QueuePool] * 3


def test_one_database_may_hold_the_ledger_too(instance: dg.DagsterInstance, postgres_url: str) -> None:
    """A user's own server has one database for both."""
    ledger = PostgresLedger(postgres_url)
    ledger.migrate()
    fact = ArtifactFact(sha256="ab", kind="note", size=1)
    ledger.append([fact])
    instance.upgrade()
    ledger.migrate()
    instance.add_dynamic_partitions("seed", ["k"])
    assert ledger.find(ArtifactFact) == [fact]
    assert instance.get_dynamic_partitions("seed") == ["k"]
    ledger.close()
