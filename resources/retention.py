"""Dagster's runs that newer ones have superseded, removed with their events by its own API.

``python -m resources.retention --days N [--dry-run]`` prints one JSON value. Run with DAGSTER_HOME, as all of Dagster.

A run is kept while some partition of some asset has its latest materialization, observation or plan from it, or some
check its latest result: what the web UI shows of an asset stays as it is. The queries rely on the tables of the
pinned Dagster release; the tests watch them.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, NamedTuple

import dagster as dg
import sqlalchemy as sa
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable as Checks
from dagster._core.storage.event_log.schema import SqlEventLogStorageTable as Events

ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
SHOWN = ("ASSET_MATERIALIZATION", "ASSET_OBSERVATION", "ASSET_MATERIALIZATION_PLANNED")
DAY = 86_400.0
PAGE = 500


class Superseded(NamedTuple):
    """``runs`` that go, or would; ``kept`` of the same age that something is shown of."""

    runs: list[str]
    events: int
    bytes: int
    kept: int


def retain(instance: dg.DagsterInstance, days: float, *, dry_run: bool) -> Superseded:
    """Remove every superseded run that ended more than ``days`` ago, with its events and captured output."""
    old = _ended_before(instance, time.time() - days * DAY)
    needed = _needed(instance)
    runs = [run for run in old if run not in needed]
    events, size = _weight(instance, runs)
    if not dry_run:
        for run in runs:
            instance.delete_run(run)
            instance.compute_log_manager.delete_logs(prefix=[run])
    return Superseded(runs, events, size, len(old) - len(runs))


def _ended_before(instance: dg.DagsterInstance, seconds: float) -> list[str]:
    """Runs that have ended, and were changed last before that time."""
    limit = datetime.fromtimestamp(seconds, UTC)
    wanted = dg.RunsFilter(statuses=ENDED, updated_before=limit)
    found: list[str] = []
    cursor = None
    while page := instance.get_run_records(wanted, limit=PAGE, cursor=cursor):
        found += [record.dagster_run.run_id for record in page]
        cursor = found[-1]
    return found


def _needed(instance: dg.DagsterInstance) -> set[str]:
    """Runs of which something is the latest."""
    latest = (
        sa.select(sa.func.max(Events.c.id))
        .where(Events.c.dagster_event_type.in_(SHOWN))
        .group_by(Events.c.dagster_event_type, Events.c.asset_key, Events.c.partition)
    )
    checked = sa.select(sa.func.max(Checks.c.id)).group_by(Checks.c.asset_key, Checks.c.check_name, Checks.c.partition)
    with _connection(instance) as connection:
        shown = connection.scalars(sa.select(Events.c.run_id).distinct().where(Events.c.id.in_(latest))).all()
        results = connection.scalars(sa.select(Checks.c.run_id).distinct().where(Checks.c.id.in_(checked))).all()
    return {str(run) for run in (*shown, *results)}


def _connection(instance: dg.DagsterInstance) -> AbstractContextManager[sa.Connection]:
    storage: Any = instance.event_log_storage  # the general class has no database
    found: AbstractContextManager[sa.Connection] = storage.index_connection()
    return found


def _weight(instance: dg.DagsterInstance, runs: Sequence[str]) -> tuple[int, int]:
    """How many events the runs have, and their bytes."""
    events = size = 0
    with _connection(instance) as connection:
        for start in range(0, len(runs), PAGE):
            chosen = Events.c.run_id.in_(runs[start : start + PAGE])
            query = sa.select(sa.func.count(), sa.func.sum(sa.func.octet_length(Events.c.event))).where(chosen)
            number, length = connection.execute(query).one()
            events, size = events + number, size + int(length or 0)
    return events, size


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m resources.retention", description=__doc__)
    parser.add_argument("--days", type=float, required=True, help="how long ago a run must have ended")
    parser.add_argument("--dry-run", action="store_true", help="remove nothing")
    options = parser.parse_args(argv)
    with dg.DagsterInstance.get() as instance:
        sys.stdout.write(json.dumps(retain(instance, options.days, dry_run=options.dry_run)._asdict()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
