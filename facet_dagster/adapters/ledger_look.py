"""How the ledger's database is, without changing anything in it."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from facet_dagster.adapters.ledger_migrations import VERSION_TABLE
from facet_dagster.adapters.ledger_tables import Base, table_of
from facet_dagster.adapters.postgres_errors import ledger_errors
from facet_dagster.domain.facts import ArtifactFact

_SAMPLE = 20


@dataclass(frozen=True)
class LedgerLook:
    """``revision`` is the migration that the tables have, empty where there is none; ``artifacts`` counts the rows
    that name an artifact, ``sample`` are the hashes of some."""

    server: str
    read_only: bool
    revision: str
    missing: tuple[str, ...] = ()
    artifacts: int = 0
    sample: tuple[str, ...] = ()


def look(url: str, *, seconds: int = 10) -> LedgerLook:
    """What stands in the database. Connecting, and each question, have ``seconds``. Raises LedgerError."""
    place = sa.make_url(url)
    limits = {"connect_timeout": seconds, "options": f"-c statement_timeout={seconds * 1000}"}
    engine = sa.create_engine(place, poolclass=sa.NullPool, connect_args=limits)
    with ledger_errors(place), engine.connect() as connection:
        names = set(sa.inspect(connection).get_table_names())
        server = str(connection.scalar(sa.text("SHOW server_version")))
        read_only = connection.scalar(sa.text("SHOW transaction_read_only")) == "on"
        revision = _revision(connection, names)
        missing = tuple(sorted(set(Base.metadata.tables) - names))
        if table_of(ArtifactFact).name not in names:
            return LedgerLook(server, read_only, revision, missing)
        return LedgerLook(server, read_only, revision, missing, *_artifacts(connection))


def _revision(connection: sa.Connection, names: set[str]) -> str:
    if VERSION_TABLE not in names:
        return ""
    return str(connection.scalar(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")) or "")  # noqa: S608 - ours


def _artifacts(connection: sa.Connection) -> tuple[int, tuple[str, ...]]:
    """How many rows, and the newest hashes with some that hash order draws from all."""
    table = table_of(ArtifactFact)
    count = connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0
    newest = connection.scalars(sa.select(table.c.sha256).order_by(table.c.seq.desc()).limit(_SAMPLE // 2))
    drawn = connection.scalars(sa.select(table.c.sha256).order_by(table.c.id).limit(_SAMPLE // 2))
    return count, tuple(dict.fromkeys([*newest, *drawn]))
