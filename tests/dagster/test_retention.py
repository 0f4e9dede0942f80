"""Which of Dagster's runs go, on its real storage."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from resources.retention import retain

pytestmark = pytest.mark.postgres
KEYS = dg.StaticPartitionsDefinition(["a", "b"])


@dg.asset(partitions_def=KEYS)
def stage(context: dg.AssetExecutionContext) -> None:
    context.log.info("one line")


@pytest.fixture
def instance(postgres_url: str, tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    storage = {
        "module": "resources.dagster_storage",
        "class": "FacetPostgresStorage",
        "config": {"postgres_url": postgres_url},
    }
    with dg.instance_for_test(overrides={"storage": {"custom": storage}}, temp_dir=str(tmp_path)) as made:
        yield made


def test_superseded_runs_go_with_their_events_and_the_others_stay(instance: dg.DagsterInstance) -> None:
    first, again, second = (
        dg.materialize([stage], instance=instance, partition_key=key).run_id for key in ("a", "a", "b")
    )
    assert retain(instance, 1, dry_run=False).runs == [], "they are young"
    tried = retain(instance, 0, dry_run=True)
    assert (tried.runs, tried.kept) == ([first], 2)
    assert tried.events > 0
    assert tried.bytes > 0
    assert instance.get_run_by_id(first) is not None
    assert retain(instance, 0, dry_run=False) == tried
    assert instance.get_run_by_id(first) is None
    assert instance.all_logs(first) == []
    assert {record.dagster_run.run_id for record in instance.get_run_records()} == {again, second}
    assert instance.get_materialized_partitions(dg.AssetKey("stage")) == {"a", "b"}
    assert retain(instance, 0, dry_run=False).runs == []
