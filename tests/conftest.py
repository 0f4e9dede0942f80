"""Fixtures for everybody: no network beyond this machine, and a PostgreSQL of the test session's own."""

from __future__ import annotations

import ipaddress
import itertools
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from xdist.scheduler import LoadScopeScheduling

from facet_dagster.adapters import embedded_postgres
from facet_dagster.adapters.postgres_ledger import PostgresLedger

# Tests of whole installations, and tests that share images of the engine: each is one stream. The rest fills up.
STREAMS = {
    "tests/integration/test_experiment_command.py": "funnel",
    "tests/e2e/": "funnel",
    "tests/integration/": "engine",
    "tests/contracts/test_sandbox.py": "engine",
}


class Streams(LoadScopeScheduling):
    """Each stream stays with one worker, the longest first. The mark ``xdist_group`` does not do it: the pinned
    xdist writes groups into names that the pinned pytest no longer reads from there."""

    def _split_scope(self, nodeid: str) -> str:
        return next((stream for start, stream in STREAMS.items() if nodeid.startswith(start)), nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Streams:
    return Streams(config, log)


@pytest.fixture(scope="session", autouse=True)
def _only_this_machine() -> Iterator[None]:
    """Connecting to another host fails the test, also where the code under test would catch the error."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "connect_ex"):
            patch.setattr(socket.socket, name, _guarded(getattr(socket.socket, name)))
        yield


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_reaches_children() -> None:
    """A run that a shell put into the background ignores Ctrl-C, and so would every program that tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _guarded(connect: Callable[[socket.socket, Any], Any]) -> Callable[[socket.socket, Any], Any]:
    def guarded(self: socket.socket, address: Any) -> Any:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_local(str(address[0])):
            pytest.fail(f"A test tried to reach {address[0]}: tests use no network")
        return connect(self, address)

    return guarded


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Databases:
    """Makes and drops databases on the session's server. Each xdist worker has a server of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        url = embedded_postgres.postgres_url(home, "postgres")
        self._admin = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        self._names = (f"test_{number}" for number in itertools.count())
        self._template = ""

    def new(self, template: str = "template1") -> str:
        name = next(self._names)
        self._do(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self._admin.url.set(database=name).render_as_string(hide_password=False)

    def new_migrated(self) -> str:
        if not self._template:
            url = self.new()
            ledger = PostgresLedger(url)
            ledger.migrate()
            ledger.close()
            self._template = str(sa.make_url(url).database)
        return self.new(self._template)

    def drop(self, url: str) -> None:
        self._do(f"DROP DATABASE {sa.make_url(url).database} WITH (FORCE)")

    def _do(self, statement: str) -> None:
        with self._admin.connect() as connection:
            connection.execute(sa.text(statement))


@contextmanager
def _new_home() -> Iterator[Path]:
    """Not below pytest's own folder: each new pytest session closes that one to other users, also to Postgres'."""
    with tempfile.TemporaryDirectory(prefix="facet-test-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
        embedded_postgres.stop(Path(folder))


@pytest.fixture
def postgres_home() -> Iterator[Path]:
    """An empty folder whose embedded server, if the test starts one, is stopped at the end."""
    with _new_home() as home:
        yield home


@pytest.fixture(scope="session")
def databases() -> Iterator[Databases]:
    with _new_home() as home:
        yield Databases(home)


@pytest.fixture
def postgres_url(databases: Databases) -> Iterator[str]:
    """URL of a fresh, empty database."""
    url = databases.new()
    yield url
    databases.drop(url)


@pytest.fixture
def ledger_url(databases: Databases) -> Iterator[str]:
    """URL of a fresh database with the ledger's tables in it."""
    url = databases.new_migrated()
    yield url
    databases.drop(url)


@pytest.fixture
def postgres_ledger(ledger_url: str) -> Iterator[PostgresLedger]:
    ledger = PostgresLedger(ledger_url)
    yield ledger
    ledger.close()
