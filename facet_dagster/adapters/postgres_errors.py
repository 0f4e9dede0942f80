"""What PostgreSQL and its driver raise, said once in this project's words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy import exc

from facet_dagster.errors import LedgerError

# SQLSTATE classes that may pass by themselves: connection, transaction rollback, resources, intervention, system.
_TRANSIENT_CLASSES = ("08", "40", "53", "57", "58")
_ADVICE = {
    "42P01": "Its tables are missing: run the set-up, which migrates the ledger.",
    "53100": "The disk of the database is full: free space, then run again.",
    "53300": "It has no free connection: lower the number of workers or raise its max_connections.",
    "25006": "It is read-only: point FACET_POSTGRES_URL at the primary server.",
    "42501": "The user may not do this: grant it the rights on the database.",
}


def place(url: sa.URL) -> str:
    """Host and database without user and password, for messages."""
    host = url.query.get("host", url.host or "localhost")
    port = f":{url.port}" if url.port else ""
    return f"{host}{port}/{url.database or ''}"


@contextmanager
def ledger_errors(url: sa.URL) -> Iterator[None]:
    """Turn errors of SQLAlchemy and the driver into LedgerError; statements and parameters are left out."""
    try:
        yield
    except exc.TimeoutError as error:
        raise LedgerError(f"PostgreSQL at {place(url)}: every pooled connection is busy.", transient=True) from error
    except exc.DBAPIError as error:
        raise _translated(url, error) from error


def _translated(url: sa.URL, error: exc.DBAPIError) -> LedgerError:
    code = str(getattr(error.orig, "pgcode", None) or "")
    first_line = (str(error.orig).strip() or type(error.orig).__name__).splitlines()[0]
    lost = not code and isinstance(error, exc.OperationalError | exc.InterfaceError)
    advice = _ADVICE.get(code, "Check that the server runs and that FACET_POSTGRES_URL is right." if lost else "")
    transient = lost or error.connection_invalidated or code.startswith(_TRANSIENT_CLASSES)
    return LedgerError(f"PostgreSQL at {place(url)}: {first_line}. {advice}".rstrip(), transient=transient)
