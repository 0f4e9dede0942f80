"""The ledger's PostgreSQL: does it answer, and do its tables fit this version."""

from __future__ import annotations

from facet_dagster.adapters.embedded_postgres import given, seen
from facet_dagster.adapters.ledger_look import LedgerLook, look
from facet_dagster.adapters.ledger_migrations import revisions
from facet_dagster.doctor.finding import Finding, Patient, broken, ok, warn
from facet_dagster.errors import LedgerError
from facet_dagster.settings import Settings

DATABASE = "facet"
_ABSENT = "does not exist"
_START = "any command that reads the ledger starts it, such as `facet funnel`"


def where(settings: Settings) -> tuple[str, str]:
    """How the server is (see ``embedded_postgres.seen``; ``given``: the user's own), and its URL, if there is one."""
    if settings.postgres_url:
        return "given", given(settings.postgres_url)
    return seen(settings.home, DATABASE)


def ledger(settings: Settings) -> LedgerLook | None:
    """What stands in the ledger; None where no server runs or nothing was made yet. Raises LedgerError."""
    state, url = where(settings)
    if not url:
        return None
    try:
        return look(url)
    except LedgerError as error:
        if state == "running" and _ABSENT in str(error):
            return None
        raise


def postgres(patient: Patient) -> Finding:
    """The server answers, or an embedded one can be started by the next command."""
    state, url = where(patient.settings)
    if not url:
        return _at_rest(state)
    try:
        found = ledger(patient.settings)
    except LedgerError as error:
        if state == "given":
            return broken("postgres", str(error), "start that server, or correct FACET_POSTGRES_URL")
        return broken("postgres", str(error), "stop it with `facet stop`, then run any command, which starts it")
    if found is None:
        return ok("postgres", "the embedded server runs; the ledger is made by the first command")
    if found.read_only:
        return broken("postgres", "the server is read-only", "point FACET_POSTGRES_URL at the primary server")
    return ok("postgres", f"PostgreSQL {found.server.split()[0]} answers ({state})")


def _at_rest(state: str) -> Finding:
    if state == "absent":
        return ok("postgres", "the embedded server was never made: the first command does it")
    if state == "starting":
        return warn("postgres", "the embedded server is starting", "wait a moment, then look again")
    how = "was killed" if state == "killed" else "is stopped"
    return warn("postgres", f"the embedded server {how}", _START)


def migrations(patient: Patient) -> Finding:
    """The tables are those of the newest migration."""
    try:
        found = ledger(patient.settings)
    except LedgerError:
        return warn("migrations", "not looked at: PostgreSQL does not answer", "mend postgres first")
    if found is None:
        return _unseen(where(patient.settings)[0])
    known = revisions()
    if not found.revision:
        return ok("migrations", "the ledger has no tables yet: the first command makes them")
    if found.revision not in known:
        what = f"the ledger has migration {found.revision}, which this version does not know (newest: {known[0]})"
        return broken("migrations", what, "use the newer version of the project that made it")
    if found.revision != known[0]:
        what = f"the ledger has migration {found.revision}, this version needs {known[0]}"
        return broken("migrations", what, "run `facet funnel`: every command that opens the ledger migrates it")
    if found.missing:
        return broken(
            "migrations", f"tables are missing: {', '.join(found.missing)}", "restore a backup (`facet restore`)"
        )
    return ok("migrations", f"the ledger has the newest one, {found.revision}")


def _unseen(state: str) -> Finding:
    if state in ("absent", "running"):
        return ok("migrations", "there is no ledger yet: the first command makes it")
    return warn("migrations", "not looked at: the embedded server does not run", _START)
