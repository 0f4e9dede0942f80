"""The embedded PostgreSQL, with real processes that start it, use it and kill it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import sqlalchemy as sa
from filelock import FileLock

from facet_dagster.adapters import embedded_postgres
from facet_dagster.adapters.embedded_postgres import postgres_url
from facet_dagster.adapters.postgres_ledger import PostgresLedger
from facet_dagster.domain.facts import ArtifactFact
from facet_dagster.errors import ConfigError, LedgerError

pytestmark = pytest.mark.postgres

START = """
import sys
from pathlib import Path
from facet_dagster.adapters.embedded_postgres import postgres_url
print(postgres_url(Path(sys.argv[1]), sys.argv[2]))
"""


@pytest.fixture
def home(postgres_home: Path) -> Path:
    return postgres_home


def scalar(url: str, statement: str) -> object:
    engine = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        result = connection.execute(sa.text(statement))
        return result.scalar() if result.returns_rows else None


def start_in_process(home: Path, database: str = "facet", **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", START, str(home), database]
    return subprocess.Popen(command, env={"PATH": "/usr/bin:/bin", **environment}, stdout=subprocess.PIPE, text=True)


def postmaster(home: Path) -> int:
    return int((home / "postgres" / "postmaster.pid").read_text().splitlines()[0])


def ended(process: psutil.Process) -> bool:
    """Also where the machine's first process leaves the dead unburied."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_a_database_is_made_once_and_keeps_its_data(home: Path) -> None:
    url = postgres_url(home, "facet")
    scalar(url, "CREATE TABLE kept (n int)")
    scalar(url, "INSERT INTO kept VALUES (42)")
    embedded_postgres.stop(home)
    assert postgres_url(home, "facet") == url
    assert scalar(url, "SELECT n FROM kept") == 42


def test_databases_of_one_server_are_separate(home: Path) -> None:
    ours, theirs = postgres_url(home, "facet"), postgres_url(home, "dagster")
    scalar(ours, "CREATE TABLE mine (n int)")
    assert scalar(ours, "SELECT current_database()") == "facet"
    assert scalar(theirs, "SELECT to_regclass('mine') IS NULL")


def test_the_server_speaks_utf_8_sorts_by_code_point_and_opens_no_port(home: Path) -> None:
    url = postgres_url(home, "facet")
    assert scalar(url, "SHOW server_encoding") == "UTF8"
    assert scalar(url, "SELECT 'Z' < 'a' AND 'a' < 'ä' AND upper('ä') = 'Ä'")
    assert scalar(url, "SHOW listen_addresses") == ""
    assert int(str(scalar(url, "SHOW max_connections"))) >= 300


def test_many_processes_may_start_it_at_once(home: Path) -> None:
    processes = [start_in_process(home, name) for name in ("facet", "dagster", "facet", "dagster")]
    urls = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0, 0]
    assert urls[0] == urls[2] == postgres_url(home, "facet") + "\n"
    assert urls[1] == urls[3]


def test_it_outlives_the_process_that_started_it(home: Path) -> None:
    process = start_in_process(home)
    url = process.communicate(timeout=120)[0].strip()
    pid = postmaster(home)
    assert scalar(url, "SELECT 1") == 1
    assert postgres_url(home, "facet") == url
    assert postmaster(home) == pid


def test_a_killed_client_does_no_harm(home: Path) -> None:
    url = postgres_url(home, "facet")
    pid = postmaster(home)
    code = "import sys, time, psycopg2; c = psycopg2.connect(sys.argv[1]); print('on', flush=True); time.sleep(600)"
    client = subprocess.Popen([sys.executable, "-c", code, url], stdout=subprocess.PIPE, text=True)
    assert client.stdout is not None
    assert client.stdout.readline() == "on\n"
    client.kill()
    client.communicate()
    assert postgres_url(home, "facet") == url
    assert postmaster(home) == pid


def test_it_comes_back_with_its_data_after_a_killed_server(home: Path) -> None:
    url = postgres_url(home, "facet")
    ledger = PostgresLedger(url)
    ledger.migrate()
    fact = ArtifactFact(sha256="ab", kind="note", size=1)
    ledger.append([fact])
    killed = postmaster(home)
    os.kill(killed, signal.SIGKILL)
    assert postgres_url(home, "facet") == url
    assert postmaster(home) != killed
    assert ledger.find(ArtifactFact) == [fact]
    ledger.close()


def test_a_stale_pid_file_whose_pid_is_another_program_now(home: Path) -> None:
    """As after a reboot of the machine: the number in the file belongs to a stranger."""
    postgres_url(home, "facet")
    pid_file = home / "postgres" / "postmaster.pid"
    before = pid_file.read_text().splitlines()
    os.kill(postmaster(home), signal.SIGKILL)
    stranger = subprocess.Popen(["sleep", "600"])
    pid_file.write_text("\n".join([str(stranger.pid), *before[1:]]) + "\n")
    assert scalar(postgres_url(home, "facet"), "SELECT 1") == 1
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


@pytest.mark.parametrize("text", ["", "garbage", "1\n2\n"])
def test_a_damaged_pid_file_of_a_stopped_server(home: Path, text: str) -> None:
    postgres_url(home, "facet")
    embedded_postgres.stop(home)
    (home / "postgres" / "postmaster.pid").write_text(text)
    assert scalar(postgres_url(home, "facet"), "SELECT 1") == 1


def test_a_start_that_was_killed_half_way_is_done_anew(home: Path) -> None:
    (home / "postgres.new").mkdir()
    (home / "postgres.new" / "PG_VERSION").write_text("18\n")
    assert scalar(postgres_url(home, "facet"), "SELECT 1") == 1
    assert not (home / "postgres.new").exists()


def test_a_new_folder_in_the_place_of_a_deleted_one_gets_a_new_server(home: Path) -> None:
    postgres_url(home, "facet")
    old = psutil.Process(postmaster(home))
    shutil.rmtree(home / "postgres")
    assert scalar(postgres_url(home, "facet"), "SELECT 1") == 1
    assert ended(old)


def test_stop_ends_it_and_may_be_repeated(home: Path) -> None:
    postgres_url(home, "facet")
    server = psutil.Process(postmaster(home))
    embedded_postgres.stop(home)
    assert ended(server)
    embedded_postgres.stop(home)


def test_stop_where_nothing_ever_ran_makes_nothing(tmp_path: Path) -> None:
    embedded_postgres.stop(tmp_path / "absent")
    assert list(tmp_path.iterdir()) == []


FOLDERS = ["with blank", "100%&+ü", "it's", "long" * 30, "a/b/c"]


@pytest.mark.parametrize("name", FOLDERS)
def test_any_usual_folder_name_works(postgres_home: Path, name: str) -> None:
    home = postgres_home / name
    url = postgres_url(home, "facet")
    ledger = PostgresLedger(url)
    ledger.migrate()
    assert ledger.find(ArtifactFact) == []
    ledger.close()
    sockets = Path(str(sa.make_url(url).query["host"]))
    embedded_postgres.stop(home)
    assert not (sockets / ".s.PGSQL.5432").exists()
    assert sockets.exists() == (len(name) < 100)


@pytest.mark.parametrize("character", ['"', "$", "`", "\\", ","])
def test_a_folder_that_cannot_be_quoted_is_refused(tmp_path: Path, character: str) -> None:
    with pytest.raises(ConfigError, match="FACET_HOME must not contain"):
        postgres_url(tmp_path / f"a{character}b", "facet")


def test_a_locale_that_is_not_installed_does_not_matter(home: Path) -> None:
    process = start_in_process(home, LC_ALL="xx_YY.UTF-8", LANG="xx_YY.ISO-8859-1", PGPORT="1", PGDATA="/nowhere")
    url = process.communicate(timeout=120)[0].strip()
    assert process.returncode == 0
    assert scalar(url, "SELECT 1") == 1


def test_a_relative_home_means_the_same_server(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = postgres_url(home, "facet")
    monkeypatch.chdir(home.parent)
    assert postgres_url(Path(home.name), "facet") == url


def test_a_broken_cluster_is_an_error_with_the_servers_own_words(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    postgres_url(home, "facet")
    embedded_postgres.stop(home)
    monkeypatch.setattr(embedded_postgres, "_START_SECONDS", 2.0)
    (home / "postgres" / "postgresql.auto.conf").write_text("no_such_setting = 1\n")
    with pytest.raises(LedgerError, match=r"does not start(.|\n)*no_such_setting"):
        postgres_url(home, "facet")


# A server of the user's own: here another embedded one stands in for it.


def test_a_given_server_is_used_with_the_database_of_its_url(postgres_url: str, tmp_path: Path) -> None:
    for database in ("facet", "dagster"):
        assert embedded_postgres.postgres_url(tmp_path, database, server=postgres_url) == postgres_url
    assert list(tmp_path.iterdir()) == []


def test_the_short_scheme_is_understood(postgres_url: str, tmp_path: Path) -> None:
    short = postgres_url.replace("postgresql://", "postgres://")
    assert embedded_postgres.postgres_url(tmp_path, "facet", server=short) == postgres_url


def test_an_unreachable_server_is_named_without_its_password(tmp_path: Path) -> None:
    server = "postgresql://bob:secret@127.0.0.1:1/mine"
    with pytest.raises(LedgerError, match=r"PostgreSQL at 127\.0\.0\.1:1/mine: .*FACET_POSTGRES_URL") as caught:
        embedded_postgres.postgres_url(tmp_path, "facet", server=server)
    assert caught.value.transient
    assert "secret" not in str(caught.value)


def test_a_missing_database_is_named(postgres_url: str, tmp_path: Path) -> None:
    server = sa.make_url(postgres_url).set(database="absent").render_as_string()
    with pytest.raises(LedgerError, match='"absent" does not exist'):
        embedded_postgres.postgres_url(tmp_path, "facet", server=server)


@pytest.mark.parametrize("server", ["mysql://h/d", "sqlite://", "localhost", "postgresql://bob:secret@h", "//", "pg"])
def test_what_is_no_postgres_url_is_a_wrong_setting(tmp_path: Path, server: str) -> None:
    with pytest.raises(ConfigError, match="postgresql://user:password@host/database") as caught:
        embedded_postgres.postgres_url(tmp_path, "facet", server=server)
    assert "secret" not in str(caught.value)


def test_a_held_start_lock_is_an_error_and_no_hang(
    home: Path, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    monkeypatch.setattr(embedded_postgres, "_START_SECONDS", 0.2)
    began = time.monotonic()
    with FileLock(home / "postgres.lock"), pytest.raises(LedgerError, match="Another process holds") as caught:
        postgres_url(home, "facet")
    record_property("seconds", time.monotonic() - began)
    assert caught.value.transient
