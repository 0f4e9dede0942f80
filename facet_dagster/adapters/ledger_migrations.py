"""The ledger's migrations: which there are, and how a database is brought to one."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from facet_dagster.domain.ids import digest

MIGRATIONS = Path(__file__).with_name("migrations")
VERSION_TABLE = "ledger_version"
# A signed 64-bit number, as advisory locks want it.
_LOCK = int.from_bytes(bytes.fromhex(digest("facet/migrate")[:16]), signed=True)


def revisions() -> tuple[str, ...]:
    """Every migration that this project knows, the newest first."""
    return tuple(script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions())


def upgrade(connection: sa.Connection, revision: str = "head") -> None:
    """Bring the tables to ``revision`` inside the caller's transaction; who does it at once waits for the other."""
    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config
