"""DockerSandbox on an engine at the other end of a wire, and when the wire is cut."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import docker
import pytest

from facet_dagster.adapters.docker_labels import RUN
from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.adapters.sandbox_contract import SUBJECT, context, shell
from facet_dagster.domain.archive import pack
from facet_dagster.errors import SandboxError
from facet_dagster.ports import Put, Run

pytestmark = pytest.mark.docker
BASE = "python:3.11-slim-bookworm"


@pytest.fixture
def api() -> Iterator[docker.APIClient]:
    client = docker.APIClient(version="auto", **docker.utils.kwargs_from_env())
    yield client
    client.close()


class Line:
    """A wire between a client on TCP and the engine's socket that can be cut."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._server = socket.create_server(("127.0.0.1", 0))
        self._ends: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def host(self) -> str:
        return f"tcp://127.0.0.1:{self._server.getsockname()[1]}"

    def cut(self) -> None:
        for end in (self._server, *self._ends):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near = self._server.accept()[0]
                far = socket.socket(socket.AF_UNIX)
                self._ends += [near, far]
                far.connect(self._engine)
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=self._copy, args=(source, target), daemon=True).start()

    @staticmethod
    def _copy(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch, api: docker.APIClient) -> Iterator[Line]:
    if not api.base_url.startswith("http+docker://local"):
        pytest.fail("this test needs an engine on a local socket")
    made = Line(docker.utils.kwargs_from_env().get("base_url", "unix:///var/run/docker.sock").split("://")[-1])
    monkeypatch.setenv("DOCKER_HOST", made.host)
    yield made
    made.cut()


def test_a_remote_engine_needs_no_shared_folder(line: Line, tmp_path: Path) -> None:
    sandbox = DockerSandbox(slots_dir=tmp_path, patience=1)
    run = Run(BASE, ("cat", "/in/a"), SUBJECT, put=(Put("/in", pack({"a": b"over the wire"})),), collect=("/in",))
    outcome = sandbox.run(run)
    sandbox.close()
    assert outcome.program.output == "over the wire"
    assert outcome.collected["/in"]


def test_an_engine_lost_while_a_program_ran_is_transient_and_the_program_is_not_run_again(
    line: Line, tmp_path: Path, api: docker.APIClient
) -> None:
    sandbox = DockerSandbox(slots_dir=tmp_path, patience=1)
    mine = {"label": f"{RUN}={sandbox.run_id}"}
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(shell, sandbox, BASE, "sleep 60")
        while not api.containers(filters=mine):
            pass
        line.cut()
        with pytest.raises(SandboxError) as caught:
            future.result()
    sandbox.close()
    left = api.containers(all=True, filters=mine)
    for container in left:
        api.remove_container(container["Id"], force=True)
    assert caught.value.transient
    assert len(left) == 1, "one program, started once"


def test_an_engine_lost_during_a_build_is_transient(line: Line, tmp_path: Path) -> None:
    sandbox = DockerSandbox(slots_dir=tmp_path, patience=1)
    mark = f"9{uuid.uuid4().int % 10**8}"
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(sandbox.build, context(BASE, f"sleep {mark}"), subject=SUBJECT)
        while not subprocess.run(["pgrep", "-f", f"^sleep {mark}"], capture_output=True, check=False).stdout:
            pass
        line.cut()
        with pytest.raises(SandboxError) as caught:
            future.result()
    sandbox.close()
    assert caught.value.transient


def test_an_engine_lost_while_a_session_was_open_is_transient_and_no_empty_output(
    line: Line, tmp_path: Path, api: docker.APIClient
) -> None:
    sandbox = DockerSandbox(slots_dir=tmp_path)
    mine = {"label": f"{RUN}={sandbox.run_id}"}
    mark = f"9{uuid.uuid4().int % 10**8}"

    def work() -> None:
        with sandbox.open(Run(BASE, ("sleep", "60"), SUBJECT)) as session:
            assert session.exec(["echo", "over the wire"]).output == "over the wire\n"
            session.exec(["sleep", mark])

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        while not subprocess.run(["pgrep", "-f", f"^sleep {mark}"], capture_output=True, check=False).stdout:
            assert not future.done(), future.result()
        line.cut()
        with pytest.raises(SandboxError) as caught:
            future.result()
    sandbox.close()
    for container in api.containers(all=True, filters=mine):
        api.remove_container(container["Id"], force=True)
    assert caught.value.transient
