"""`facet doctor` on a good installation and on broken ones, each broken for real."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import docker as docker_client
import pytest
import sqlalchemy as sa

from facet_dagster import connect
from facet_dagster.adapters.docker_labels import DEPLOYMENT, OWNER, SUBJECT
from facet_dagster.adapters.embedded_postgres import seen
from facet_dagster.adapters.ledger_migrations import revisions, upgrade
from facet_dagster.doctor import engine
from facet_dagster.doctor.examine import CHECKS, examine
from facet_dagster.doctor.finding import Check, Finding
from facet_dagster.domain.facts import ArtifactFact
from facet_dagster.ports import Point
from facet_dagster.settings import load_settings
from tests.fixtures.engines import BASE
from tests.fixtures.fake_engine import fake_engine

pytestmark = [pytest.mark.docker, pytest.mark.postgres]
FACET = str(Path(sys.executable).with_name("facet"))
SECRET = "sk-0123456789abcdef-do-not-print"
MINE = "doctor-test"


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A home of the test's own, and a deployment whose leftovers are the test's own."""
    for name in [name for name in os.environ if name.startswith("FACET_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("FACET_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FACET_DEPLOYMENT", f"{MINE}-{os.getpid()}")
    monkeypatch.setenv("FACET_UI_PORT", str(free_port()))
    monkeypatch.chdir(tmp_path)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def look(*names: str, live: bool = False) -> dict[str, Finding]:
    """The findings of some checks, or of all."""
    checks = [check for check in CHECKS if not names or check.name in names]
    return {finding.name: finding for finding in examine(os.environ, checks=checks, live=live)}


def one(name: str, **more: bool) -> Finding:
    return look(name, **more)[name]


def facet(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([FACET, *arguments], capture_output=True, text=True, check=False)


def tree(home: Path) -> dict[str, tuple[int, int]]:
    """Size and time of every file, but for the running server's own."""
    files = (p for p in home.rglob("*") if home / "postgres" not in (p, *p.parents))
    return {str(p): (p.lstat().st_size, p.lstat().st_mtime_ns) for p in files}


@pytest.fixture
def good(postgres_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a ledger, an artifact and a shard."""
    monkeypatch.setenv("FACET_HOME", str(postgres_home))
    settings = load_settings()
    ledger, store = connect.open_ledger(settings), connect.open_store(settings)
    ledger.append([ArtifactFact(sha256=store.put(b"one"), kind="note", size=3)])
    with connect.open_vectors(settings) as vectors:
        vectors.upsert([Point("a", [1.0, 0.0])])
    return postgres_home


def blob(home: Path) -> Path:
    return next(path for path in (home / "artifacts").glob("??/??/*"))


def test_a_good_installation_is_green_and_left_as_it_was(good: Path) -> None:
    before = tree(good)
    done = facet("doctor", "--json")
    assert tree(good) == before
    found = json.loads(done.stdout)
    states = {finding["name"]: finding["state"] for finding in found["findings"]}
    assert states.pop("harbor") == "warn", "nothing was set up here"
    assert set(states.values()) == {"ok"}, done.stdout
    assert found["ok"]
    assert done.returncode == 0
    assert len(states) == len(CHECKS)


def test_where_nothing_is_yet_nothing_is_made(tmp_path: Path) -> None:
    found = look()
    assert not (tmp_path / "home").exists()
    assert [name for name, finding in found.items() if finding.state == "broken"] == []
    assert "first command" in found["postgres"].what


def test_an_embedded_server_that_was_killed_is_named_and_not_started(good: Path) -> None:
    pid = int((good / "postgres" / "postmaster.pid").read_text().splitlines()[0])
    os.kill(pid, signal.SIGKILL)
    while seen(good, "facet")[0] == "running":
        pass
    found = look("postgres", "migrations", "artifacts")
    assert (found["postgres"].state, found["postgres"].what) == ("warn", "the embedded server was killed")
    assert "facet funnel" in found["postgres"].mend
    assert found["migrations"].state == "warn"
    assert found["artifacts"].state == "ok", "what lies there is tried"
    assert seen(good, "facet")[0] == "killed"
    assert facet("funnel").returncode == 0
    assert one("postgres").state == "ok"


def test_a_server_that_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACET_POSTGRES_URL", f"postgresql://bob:{SECRET}@127.0.0.1:1/mine")
    found = look("postgres", "migrations", "artifacts")
    assert found["postgres"].state == "broken"
    assert "127.0.0.1:1/mine" in found["postgres"].what
    assert "FACET_POSTGRES_URL" in found["postgres"].mend
    assert found["migrations"].mend == "mend postgres first"
    assert SECRET not in str(found)


@contextlib.contextmanager
def deaf(family: int, where: object) -> Iterator[None]:
    """Somebody who takes connections and never says a word."""
    with socket.socket(family) as server:
        server.bind(where)
        server.listen(16)
        yield


def test_services_that_never_answer_do_not_hang_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    port = free_port()
    monkeypatch.setenv("FACET_POSTGRES_URL", f"postgresql://bob@127.0.0.1:{port}/mine")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    with deaf(socket.AF_INET, ("127.0.0.1", port)), deaf(socket.AF_UNIX, f"{tmp_path}/docker.sock"):
        impatient = [
            Check(check.name, check.look, seconds=2.0) for check in CHECKS if check.name in ("docker", "postgres")
        ]
        found = examine(os.environ, checks=impatient)
        assert [finding.state for finding in found[1:]] == ["broken", "broken"]
        assert all("gave no answer in 2 s" in finding.what for finding in found[1:])
        assert one("postgres").state == "broken"


def migrated_to(url: str, revision: str) -> None:
    with sa.create_engine(url, poolclass=sa.NullPool).begin() as connection:
        upgrade(connection, revision)


def test_stale_migrations(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACET_POSTGRES_URL", postgres_url)
    assert one("migrations").what.startswith("the ledger has no tables yet")
    migrated_to(postgres_url, "0001")
    found = one("migrations")
    assert found.state == "broken"
    assert found.what == f"the ledger has migration 0001, this version needs {revisions()[0]}"
    assert one("migrations") == found, "it changes nothing by itself"
    assert facet("funnel").returncode == 0, "what it says to do"
    assert one("migrations").state == "ok"


def test_a_ledger_of_a_newer_version(ledger_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACET_POSTGRES_URL", ledger_url)
    with sa.create_engine(ledger_url, poolclass=sa.NullPool).begin() as connection:
        connection.execute(sa.text("UPDATE ledger_version SET version_num = '9999'"))
    found = one("migrations")
    assert found.state == "broken"
    assert "9999, which this version does not know" in found.what
    assert found.mend == "use the newer version of the project that made it"


def test_no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/absent.sock")
    done = facet("doctor", "--json")
    found = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert done.returncode == 1
    assert [name for name, finding in found.items() if finding["state"] == "broken"] == ["docker"]
    assert "No Docker Engine answers" in found["docker"]["what"]
    assert found["docker"]["mend"] == f"start the engine at DOCKER_HOST=unix://{tmp_path}/absent.sock, or unset it"
    assert {found[name]["mend"] for name in ("base image", "leftovers", "engine disk")} == {"mend docker first"}


def test_an_engine_that_is_too_old(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with fake_engine(tmp_path, {"GET /info": [(200, {"ServerVersion": "19.03.8"})]}) as (_, host):
        monkeypatch.setenv("DOCKER_HOST", host)
        found = one("docker")
    assert (found.state, found.what) == ("broken", "Docker Engine 19.03.8 is too old")


def test_a_missing_base_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACET_BASE_IMAGE", "facet-doctor-absent:1")
    found = one("base image")
    assert found.state == "broken"
    assert found.what == "facet-doctor-absent:1 is not on the engine"
    assert found.mend == "run `docker pull facet-doctor-absent:1`"


def test_the_engines_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    free = shutil.disk_usage("/var/lib/docker").free / 2**30
    monkeypatch.setenv("FACET_DISK_WATERMARK", str(free + 100))
    assert one("engine disk").state == "warn"
    monkeypatch.setenv("FACET_DISK_FLOOR", str(free + 50))
    found = one("engine disk")
    assert found.state == "broken"
    assert "nothing runs" in found.what


def dead_owner() -> str:
    code = "from facet_dagster.adapters.process_owner import current_owner as o; print(o())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_leftover_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert one("leftovers").state == "ok"
    labels = {DEPLOYMENT: load_settings().deployment, SUBJECT: "seed-7"}
    api = docker_client.from_env().api
    for _ in range(5):  # somebody else's process may remove it, as it should
        made = api.create_container(BASE, ["true"], labels={**labels, OWNER: dead_owner()})["Id"]
        try:
            found = one("leftovers")
            still = any(c["Id"] == made for c in api.containers(all=True))
        finally:
            with contextlib.suppress(docker_client.errors.APIError):
                api.remove_container(made, force=True)
        if still:
            break
    api.close()
    assert (found.state, found.mend) == ("warn", "run `facet reap`")
    assert f"container {made[:12]} (seed-7)" in found.what


@pytest.fixture
def small_disk() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="facet-disk-") as folder:
        mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("this user may not mount a small file system")
        yield Path(folder)
        subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_full_disk(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (small_disk / "fill").write_bytes(b"x" * (6 * 2**20))
    monkeypatch.setenv("FACET_HOME", str(small_disk / "home"))
    found = one("disk")
    assert found.state == "broken"
    assert found.what == f"full: 2 MiB free for {small_disk / 'home'}"


def test_a_home_that_cannot_be_written(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    monkeypatch.setenv("FACET_HOME", str(small_disk / "home"))
    assert one("home").what == f"{small_disk} cannot be written"
    assert one("home").state == "broken"


HOLD = """
import sys, time
from pathlib import Path
from facet_dagster.adapters.qdrant_edge_vector_store import QdrantEdgeVectorStore
store = QdrantEdgeVectorStore(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
store.close()
"""


def test_a_locked_shard(good: Path) -> None:
    other = [sys.executable, "-c", HOLD, str(good / "vectors")]
    with subprocess.Popen(other, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        found = one("vectors")
        process.communicate()
    assert found.state == "broken"
    assert f"is locked by process {process.pid}" in found.what
    assert found.mend.startswith("end that process")
    assert one("vectors").state == "ok"


def test_a_shard_that_a_run_uses_is_no_trouble(good: Path) -> None:
    run = [sys.executable, "-c", HOLD, str(good / "vectors"), "facet_dagster.launch"]
    with subprocess.Popen(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = one("vectors")
        process.communicate()
    assert (found.state, found.what) == ("warn", f"the shard is in use by the run of process {process.pid}")


def test_a_vector_server_that_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACET_QDRANT_URL", "http://127.0.0.1:1")
    found = one("vectors")
    assert (found.state, found.mend) == ("broken", "start the Qdrant server, or correct FACET_QDRANT_URL")


def test_an_artifact_store_that_is_no_folder(good: Path) -> None:
    shutil.rmtree(good / "artifacts")
    assert one("artifacts").what == f"the ledger names 1, but {good / 'artifacts'} is gone"
    (good / "artifacts").write_text("not a folder")
    found = one("artifacts")
    assert found.state == "broken"
    assert found.what == f"{good / 'artifacts'} is no folder"
    assert (good / "artifacts").read_text() == "not a folder"


@pytest.mark.parametrize("how", ["gone", "damaged", "a folder"])
def test_an_artifact_that_cannot_be_read(good: Path, how: str) -> None:
    path = blob(good)
    path.unlink()
    if how == "damaged":
        path.write_bytes(b"two")
    if how == "a folder":
        path.mkdir()
    found = one("artifacts")
    assert found.state == "broken"
    assert path.name[:12] in found.what
    assert "facet restore" in found.mend


def test_a_port_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    serve = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = process.stdout.readline().split("port ")[1].split()[0]
        monkeypatch.setenv("FACET_UI_PORT", port)
        found = one("web port")
        process.terminate()
    assert found.state == "broken"
    assert found.what.startswith(f"port {port} is in use by process {process.pid} (")
    assert found.mend == "stop what uses it, or set FACET_UI_PORT to another one"


def test_the_installations_own_web_ui_is_no_trouble(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    serve = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"]
    environment = {**os.environ, "DAGSTER_HOME": str(tmp_path / "home" / "dagster")}
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        monkeypatch.setenv("FACET_UI_PORT", process.stdout.readline().split("port ")[1].split()[0])
        found = one("web port")
        process.terminate()
    assert found.state == "ok"
    assert f"(process {process.pid})" in found.what


@contextlib.contextmanager
def endpoint(status: int, body: object = None) -> Iterator[tuple[str, list[str]]]:
    """An endpoint that answers everything alike; its address, and what was asked of it."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.command} {self.path} {self.headers.get('Authorization')}")
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            data = json.dumps(body or {"error": {"message": f"Incorrect API key: {SECRET}"}}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
    finally:
        server.shutdown()
        server.server_close()


LISTED = {"data": [{"id": "tiny"}, {"id": "other"}]}
ENDPOINTS = [
    (401, None, "broken", "the key is refused, or there is none"),
    (404, None, "warn", "lists no models (status 404)"),
    (200, LISTED, "ok", "is listed under this key"),
    (200, {"data": [{"id": "other"}]}, "warn", "is not among the 1 models"),
    (200, {"hello": 1}, "warn", "lists no models (status 200)"),
]


@pytest.mark.parametrize(("status", "body", "state", "said"), ENDPOINTS)
def test_the_models_key(monkeypatch: pytest.MonkeyPatch, status: int, body: object, state: str, said: str) -> None:
    with endpoint(status, body) as (address, asked):
        with_password = address.replace("://", f"://user:{SECRET}@")
        monkeypatch.setenv("FACET_MODEL", "openai/tiny")
        monkeypatch.setenv("FACET_API_BASE", with_password)
        monkeypatch.setenv("FACET_API_KEY", SECRET)
        found = one("model")
    assert found.state == state
    assert said in found.what
    assert asked[0].startswith("GET /v1/models ")
    assert SECRET not in found.what + found.mend
    assert (found.mend == "set FACET_API_KEY to a valid key") == (status == 401)


def test_a_wrong_key_fails_the_command_without_printing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint(401) as (address, asked):
        monkeypatch.setenv("FACET_MODEL", "openai/tiny")
        monkeypatch.setenv("FACET_API_BASE", address)
        monkeypatch.setenv("FACET_API_KEY", SECRET)
        plain, live = facet("doctor"), facet("doctor", "--live")
    assert asked[0] == f"GET /v1/models Bearer {SECRET}"
    assert asked[1].startswith("POST /v1/chat/completions"), "only --live makes a call"
    for done in (plain, live):
        assert done.returncode == 1
        assert "FACET_API_KEY" in done.stdout
        assert SECRET not in done.stdout + done.stderr
        assert "broken model" in done.stdout


def test_an_endpoint_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACET_TEACHER", "openai/tiny")
    monkeypatch.setenv("FACET_TEACHER_BASE", "http://127.0.0.1:1/v1")
    found = look("teacher", "harbor")
    assert found["teacher"].what == "openai/tiny at http://127.0.0.1:1/v1 cannot be reached"
    assert "FACET_TEACHER_BASE" in found["teacher"].mend
    assert found["harbor"].state == "broken", "rollouts need it"


def test_a_provider_whose_key_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MISTRAL_API_KEY", raising=False)
    monkeypatch.setenv("FACET_MODEL", "mistral/mistral-small-latest")
    found = one("model")
    assert (found.state, found.mend) == ("broken", "set MISTRAL_API_KEY")


def test_configured_files_that_are_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FACET_TAPE", str(tmp_path / "none.jsonl"))
    found = one("files")
    assert (found.state, found.what) == ("broken", f"there is no tape FACET_TAPE={tmp_path / 'none.jsonl'}")
    monkeypatch.setenv("FACET_TOKENIZER", str(tmp_path / "tokenizer.json"))
    assert "FACET_TOKENIZER" in one("files").what
    monkeypatch.delenv("FACET_TOKENIZER")
    (tmp_path / "none.jsonl").write_text("{]")
    assert one("files").state == "broken"


def test_wrong_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACET_SEEDZ", "3")
    assert one("settings").state == "warn"
    assert "FACET_SEEDZ" in one("settings").what
    monkeypatch.setenv("FACET_SEEDS", "many")
    found = look()
    assert list(found) == ["settings"]
    assert found["settings"].state == "broken"
    assert "FACET_SEEDS" in found["settings"].what


def test_a_check_that_fails_does_not_take_the_others_along() -> None:
    def bad(_: object) -> Finding:
        raise KeyError(SECRET)

    found = examine(os.environ, checks=[Check("bad", bad), Check("docker", engine.docker)])
    assert [(finding.name, finding.state) for finding in found[1:]] == [("bad", "broken"), ("docker", "ok")]
    assert SECRET not in found[1].what
