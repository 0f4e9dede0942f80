"""Dagster's storage in PostgreSQL, with three changes that large partition sets need and one for pools.

Stock storage opens a connection for every operation, writes most events one by one, and the UI asks for the
existence of every partition key separately. Here connections are kept, batches are written at once
(``dagster_events``), and keys are looked up in a set. All rely on internals of the pinned Dagster release; the
tests watch them. In ``dagster.yaml``::

    storage:
      custom:
        module: resources.dagster_storage
        class: FacetPostgresStorage
        config: {postgres_url: ...}
"""

import time
from collections.abc import Mapping
from typing import Any

from dagster._core.execution.plan.instance_concurrency_context import InstanceConcurrencyContext
from dagster._serdes import ConfigurableClassData
from dagster_postgres import DagsterPostgresStorage
from dagster_postgres.utils import get_token_provider_from_config, pg_url_from_config

from resources.dagster_events import BatchedEventLogStorage

_KEYS_SECONDS = 10.0
_STATEMENT_MILLISECONDS = 60_000
_RECYCLE_SECONDS = 3600
_MOST_EXTRA_CONNECTIONS = 20


def _seconds_to_next_claim(waiting: InstanceConcurrencyContext) -> float:
    """Until a step that waits for its pool looks again. The pinned release says 0 always, and spins on a whole core."""
    now = time.time()
    return max(0.05, min((at - now for at in waiting._pending_timeouts.values()), default=0.0))


setattr(InstanceConcurrencyContext, "interval_to_next_pending_claim_check", _seconds_to_next_claim)  # noqa: B010


class CachedKeysEventLogStorage(BatchedEventLogStorage):
    """Answers ``has_dynamic_partition`` from a set of keys, at most 10 s old.

    A key that is not in the set is looked up in the database, so a new one is seen at once; one that
    another process deleted may be reported for 10 s more.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._known: dict[str, tuple[float, frozenset[str]]] = {}

    def has_dynamic_partition(self, partitions_def_name: str, partition_key: str) -> bool:
        if partition_key in self._keys(partitions_def_name):
            return True
        return super().has_dynamic_partition(partitions_def_name, partition_key)

    def delete_dynamic_partition(self, partitions_def_name: str, partition_key: str) -> None:
        super().delete_dynamic_partition(partitions_def_name, partition_key)
        self._known.pop(partitions_def_name, None)

    def _keys(self, partitions_def_name: str) -> frozenset[str]:
        read_at, keys = self._known.get(partitions_def_name, (-_KEYS_SECONDS, frozenset()))
        now = time.monotonic()
        if now - read_at >= _KEYS_SECONDS:
            keys = frozenset(self.get_dynamic_partitions(partitions_def_name))
            self._known[partitions_def_name] = (now, keys)
        return keys


def _ask_before_use(storage: Any) -> None:
    """Connections that a restart of the database broke are replaced unseen, also after the webserver's own tuning."""
    tune = storage.optimize_for_webserver

    def tuned(*args: Any, **kwargs: Any) -> None:
        tune(*args, **kwargs)
        storage._engine.pool._pre_ping = True

    storage.optimize_for_webserver = tuned


class FacetPostgresStorage(DagsterPostgresStorage):
    """Dagster's run, event and schedule storage over pooled connections."""

    def __init__(
        self,
        postgres_url: str,
        *,
        should_autocreate_tables: bool = True,
        inst_data: ConfigurableClassData | None = None,
        token_provider: Any = None,
    ) -> None:
        super().__init__(postgres_url, should_autocreate_tables, inst_data, token_provider)
        self._event_log_storage = CachedKeysEventLogStorage(
            postgres_url, should_autocreate_tables, token_provider=token_provider
        )
        for storage in (self._run_storage, self._event_log_storage, self._schedule_storage):
            _ask_before_use(storage)
            storage.optimize_for_webserver(
                statement_timeout=_STATEMENT_MILLISECONDS,
                pool_recycle=_RECYCLE_SECONDS,
                max_overflow=_MOST_EXTRA_CONNECTIONS,
            )

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> "FacetPostgresStorage":
        """The inherited method names its own class, so pooling would silently be lost."""
        return cls(
            pg_url_from_config(config_value),
            should_autocreate_tables=config_value.get("should_autocreate_tables", True),
            inst_data=inst_data,
            token_provider=get_token_provider_from_config(config_value),
        )
