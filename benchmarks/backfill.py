"""Dagster's own cost of a range of partitions, ours against the usual pattern, in turns in one process.

``python -m benchmarks.backfill [--seeds 7852] [--batch 500]`` prints one JSON object: milliseconds for each seed and
stage, with creating the run (planned rows), materializations and checks; stages compute nothing. The usual pattern is
a pooled connection with batched materializations, where planned partitions and checks are written one by one.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import dagster as dg
import yaml
from dagster._core.events.log import EventLogEntry
from dagster_postgres.event_log import PostgresEventLogStorage

from assets._dagster import fan_out, stage_asset
from assets.partitions import SEEDS
from facet_dagster.adapters import embedded_postgres
from facet_dagster.adapters.memory import MemoryArtifactStore, MemoryLedger
from facet_dagster.domain.outcome import Reason, Value, reject
from facet_dagster.funnel import Outcome, Stage
from resources.dagster_events import BatchedEventLogStorage

REJECTED = 5  # every so many


class Nothing(Value):
    key: str


def stage_of(name: str) -> dg.AssetsDefinition:
    """A stage that computes nothing and rejects every fifth seed; its ledger is memory."""
    ledger, store = MemoryLedger(), MemoryArtifactStore()

    def compute(key: str) -> Outcome:
        rejection = reject(Reason.TASK_FLAKY, "One of five.") if int(key[-5:]) % REJECTED == 0 else None
        return Outcome(Nothing(key=key), rejection=rejection)

    @stage_asset(name, deps=[], group="s4_tasks", version="1", partitions=SEEDS, pool=None, batch=500)
    def body(context: dg.AssetExecutionContext) -> Iterator[dg.Output[None]]:
        """Nothing."""
        yield from fan_out(context, Stage(name, "1"), compute, ledger=ledger, store=store, workers=2)

    return body


@contextmanager
def usual() -> Iterator[None]:
    """The event log as the pinned release has it: only materializations are written at once."""
    stock = PostgresEventLogStorage.store_event_batch

    def store(self: PostgresEventLogStorage, events: Sequence[EventLogEntry]) -> None:
        if events[0].dagster_event_type is not dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            return stock(self, events)
        for event in events:
            self.store_event(event)
        return None

    with patch.object(BatchedEventLogStorage, "store_event_batch", store):
        yield


def seconds(instance: dg.DagsterInstance, asset: dg.AssetsDefinition, keys: Sequence[str]) -> float:
    tags = {"dagster/asset_partition_range_start": keys[0], "dagster/asset_partition_range_end": keys[-1]}
    began = time.perf_counter()
    assert dg.materialize([asset], instance=instance, tags=tags).success
    return time.perf_counter() - began


def measure(instance: dg.DagsterInstance, seeds: int, batch: int) -> dict[str, object]:
    keys = [f"261130-{n:05d}" for n in range(seeds)]
    instance.add_dynamic_partitions("seed", keys)
    ours, theirs = stage_of("ours"), stage_of("usual")
    taken: dict[str, list[float]] = {"ours": [], "usual": []}
    for first in range(0, seeds, batch):
        part = keys[first : first + batch]
        with usual():
            taken["usual"].append(1000 * seconds(instance, theirs, part) / len(part))
        taken["ours"].append(1000 * seconds(instance, ours, part) / len(part))
    shown = {name: set(instance.get_materialized_partitions(dg.AssetKey(name))) == set(keys) for name in taken}
    medians = {name: statistics.median(values) for name, values in taken.items()}
    return {
        "seeds": seeds,
        "batch": batch,
        "ms_per_seed_and_stage": {name: round(value, 2) for name, value in medians.items()},
        "ratio": round(medians["ours"] / medians["usual"], 3),
        "all_materialized": shown,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=7852)
    parser.add_argument("--batch", type=int, default=500)
    options = parser.parse_args()
    os.environ["DAGSTER_EVENT_BATCH_SIZE"] = "1000"  # noqa: TID251 - as every process of an installation has it
    with tempfile.TemporaryDirectory(prefix="facet-backfill-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        url = embedded_postgres.postgres_url(home, "dagster")
        custom = {"module": "resources.dagster_storage", "class": "FacetPostgresStorage"}
        storage = {"custom": {**custom, "config": {"postgres_url": url}}}
        config = {"storage": storage, "telemetry": {"enabled": False}, "python_logs": {"python_log_level": "ERROR"}}
        (home / "dagster.yaml").write_text(yaml.safe_dump(config))
        try:
            with dg.DagsterInstance.from_config(folder) as instance:
                print(json.dumps(measure(instance, options.seeds, options.batch)))
        finally:
            embedded_postgres.stop(home)


if __name__ == "__main__":
    main()
