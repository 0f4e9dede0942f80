"""The ledger's tables as a whole: copied out in one snapshot, copied into an empty database, searched for hashes.

PostgreSQL's own COPY text is the format: it fits every server version, and leaves what else the database holds alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import sqlalchemy as sa

from facet_dagster.adapters.ledger_migrations import VERSION_TABLE, revisions, upgrade
from facet_dagster.adapters.ledger_tables import FACT_SEQ, Base, table_of
from facet_dagster.adapters.postgres_errors import ledger_errors, place
from facet_dagster.domain.facts import ArtifactFact
from facet_dagster.errors import ConfigError

Tables = Mapping[str, list[str]]
_HASH = "[0-9a-f]{64}"


@dataclass(frozen=True)
class Snapshot:
    """The ledger as it was at one moment. ``tables`` maps each table to its columns."""

    revision: str
    tables: Tables
    _connection: sa.Connection

    def copy(self, table: str, target: BinaryIO) -> int:
        """Write the table's rows; gives their number."""
        cursor = _cursor(self._connection)
        cursor.copy_expert(f"COPY {table} ({_columns(self.tables[table])}) TO STDOUT", target)
        return int(cursor.rowcount)

    def artifacts(self) -> set[str]:
        """Hashes of every artifact that has a row."""
        return set(self._connection.scalars(sa.select(table_of(ArtifactFact).c.sha256)))

    def hashes(self) -> set[str]:
        """Everything in any column of any row that looks like the hash of an artifact."""
        found: set[str] = set()
        for table in self.tables:
            query = f"SELECT DISTINCT (regexp_matches(t::text, '{_HASH}', 'g'))[1] FROM {table} t"  # noqa: S608 - ours
            found.update(self._connection.scalars(sa.text(query)))
        return found


class LedgerCopy:
    """Over a SQLAlchemy URL. Raises LedgerError."""

    def __init__(self, url: str) -> None:
        self._url = sa.make_url(url)
        self._engine = sa.create_engine(
            self._url, poolclass=sa.NullPool, hide_parameters=True, connect_args={"connect_timeout": 10}
        )

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """The tables at one moment, whatever is appended during the block. Raises ConfigError where there are none."""
        with ledger_errors(self._url), self._engine.connect() as connection:
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
            connection.execute(sa.text("SET TRANSACTION READ ONLY"))
            tables = _tables(connection)
            if not tables:
                raise ConfigError(f"There is no ledger at {place(self._url)} yet: nothing to look at")
            revision = connection.scalar(sa.text(f"SELECT version_num FROM {VERSION_TABLE}"))  # noqa: S608 - ours
            yield Snapshot(str(revision), tables, connection)

    def check_empty(self) -> None:
        """Raises ConfigError when a row is there."""
        with ledger_errors(self._url), self._engine.connect() as connection:
            self._refuse_rows(connection)

    def load(self, revision: str, tables: Tables, open_rows: Callable[[str], BinaryIO]) -> None:
        """Fill the empty ledger with copied rows and bring it to the newest migration, all or nothing.

        Raises ConfigError when a row is there, or ``revision`` is unknown.
        """
        if revision not in revisions():
            raise ConfigError(f"The backup has migration {revision}, which this version does not know: use a newer one")
        with ledger_errors(self._url), self._engine.begin() as connection:
            self._refuse_rows(connection)
            for table in (*_tables(connection), VERSION_TABLE):
                connection.execute(sa.text(f"DROP TABLE IF EXISTS {table}"))
            connection.execute(sa.text(f"DROP SEQUENCE IF EXISTS {FACT_SEQ}"))
            upgrade(connection, revision)
            if {table: set(columns) for table, columns in _tables(connection).items()} != _sets(tables):
                raise ConfigError(f"The tables of the backup are not those of migration {revision}")
            for table, columns in tables.items():
                with open_rows(table) as rows:
                    _cursor(connection).copy_expert(f"COPY {table} ({_columns(columns)}) FROM STDIN", rows)
            _go_on_counting(connection, tables)
            upgrade(connection)

    def _refuse_rows(self, connection: sa.Connection) -> None:
        for table in _tables(connection):
            if connection.scalar(sa.text(f"SELECT EXISTS (SELECT FROM {table})")):  # noqa: S608 - ours
                raise ConfigError(
                    f"The ledger at {place(self._url)} is not empty (table {table} has rows): restore into a new home,"
                    " by FACET_HOME, or into another database, by FACET_POSTGRES_URL"
                )


def _tables(connection: sa.Connection) -> dict[str, list[str]]:
    """The ledger's tables that are there, with their columns in order."""
    inspector = sa.inspect(connection)
    there = sorted(set(Base.metadata.tables) & set(inspector.get_table_names()))
    return {table: [column["name"] for column in inspector.get_columns(table)] for table in there}


def _sets(tables: Tables) -> dict[str, set[str]]:
    return {table: set(columns) for table, columns in tables.items()}


def _columns(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _cursor(connection: sa.Connection) -> Any:
    return connection.connection.cursor()


def _go_on_counting(connection: sa.Connection, tables: Tables) -> None:
    """The common sequence of all tables goes on after the last row."""
    last = max((connection.scalar(sa.text(f"SELECT max(seq) FROM {table}")) or 0 for table in tables), default=0)  # noqa: S608
    if last:
        connection.execute(sa.select(sa.func.setval(FACT_SEQ, last)))
