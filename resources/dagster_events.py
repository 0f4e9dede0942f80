"""Event batches as few statements: what a range of partitions plans, and the checks of what it settled.

The pinned release writes a batch at once only where all of it are materializations; planned partitions and
checks, two of the three rows that a partition leaves, are written one by one.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa
from dagster import DagsterEventType
from dagster._core.events.log import EventLogEntry
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable, SqlEventLogStorageTable
from dagster._serdes import serialize_value
from dagster_postgres.event_log import PostgresEventLogStorage
from dagster_postgres.utils import DagsterPostgresException
from sqlalchemy import exc

PLANNED = frozenset({DagsterEventType.ASSET_MATERIALIZATION_PLANNED, DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED})
CHECKED = frozenset({DagsterEventType.ASSET_CHECK_EVALUATION})
_COLUMNS = tuple(
    column for column in AssetCheckExecutionsTable.columns if column.name not in ("id", "create_timestamp")
)
_PATIENCE_SECONDS = 60.0
_PAUSE_SECONDS = 1.0
_SAME = ("asset_key", "check_name", "run_id", "partition")


def patiently(store: Callable[[], None]) -> None:
    """Store again for a minute while the database is away, as during its restart; an event may then stand twice."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return store()
        except (exc.OperationalError, exc.InterfaceError, DagsterPostgresException):
            if time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_SECONDS)


class BatchedEventLogStorage(PostgresEventLogStorage):
    """PostgreSQL event log that stores batches of planned partitions and of checks by one insert each."""

    def store_event(self, event: EventLogEntry) -> None:
        store = super().store_event
        patiently(lambda: store(event))

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        kinds = {event.get_dagster_event().event_type for event in events}
        store = super().store_event_batch
        if kinds <= PLANNED:
            store = self._store_planned
        elif kinds <= CHECKED:
            store = self._store_checked
        patiently(lambda: store(events))

    def _insert(self, events: Sequence[EventLogEntry]) -> list[int]:
        """Their storage ids, in order."""
        statement = self.prepare_insert_event_batch(events).returning(SqlEventLogStorageTable.c.id)
        with self._connect() as connection:
            return [int(row[0]) for row in connection.execute(statement)]

    def _store_planned(self, events: Sequence[EventLogEntry]) -> None:
        last = dict[str, tuple[EventLogEntry, int]]()
        for event, number in zip(events, self._insert(events), strict=True):
            said = event.get_dagster_event()
            if said.event_type is DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED:
                self.store_asset_check_event(event, number)
            elif said.asset_key:
                last[said.asset_key.to_string()] = (event, number)
        with self.index_transaction() as connection:
            for _, (event, number) in sorted(last.items()):  # in one order, or two runs may wait for each other
                self._store_asset_event(connection, event, number)

    def _store_checked(self, events: Sequence[EventLogEntry]) -> None:
        """As one by one: the row that the plan of the run made is filled, and made where there is none."""
        rows = [self._check_row(event, number) for event, number in zip(events, self._insert(events), strict=True)]
        groups = defaultdict[tuple[Any, ...], list[dict[str, Any]]](list)
        for row in rows:
            groups[row["asset_key"], row["check_name"], row["run_id"], row["partition"] is None].append(row)
        with self.index_transaction() as connection:
            for (asset, check, run, whole), group in groups.items():
                found = _update(connection, group, asset, check, run, whole=whole)
                if new := [row for row in group if row["partition"] not in found]:
                    connection.execute(AssetCheckExecutionsTable.insert(), new)

    def _check_row(self, event: EventLogEntry, number: int) -> dict[str, Any]:
        said = event.get_dagster_event().asset_check_evaluation_data
        status = AssetCheckExecutionRecordStatus
        target = said.target_materialization_data
        return {
            "asset_key": said.asset_key.to_string(),
            "check_name": said.check_name,
            "partition": said.partition,
            "run_id": event.run_id,
            "execution_status": (status.SUCCEEDED if said.passed else status.FAILED).value,
            "evaluation_event": serialize_value(event),
            "evaluation_event_timestamp": self._event_insert_timestamp(event),
            "evaluation_event_storage_id": number,
            "materialization_event_storage_id": target.storage_id if target else None,
        }


def _update(
    connection: sa.Connection, rows: Sequence[dict[str, Any]], asset: str, check: str, run: str, *, whole: bool
) -> set[str | None]:
    """Fill the planned rows of one check in one run; gives the partitions that had one."""
    table = AssetCheckExecutionsTable
    given = sa.values(*(sa.column(column.name, column.type) for column in _COLUMNS), name="given").data(
        [tuple(row[column.name] for column in _COLUMNS) for row in rows]
    )
    same = table.c.partition.is_(None) if whole else table.c.partition == given.c.partition
    statement = (
        table.update()
        .where(table.c.asset_key == asset, table.c.check_name == check, table.c.run_id == run, same)
        .values({column.name: given.c[column.name] for column in _COLUMNS if column.name not in _SAME})
        .returning(table.c.partition)
    )
    return {row[0] for row in connection.execute(statement)}
