"""Hostile builds on a real engine: contained, told as the recipe's fault, and nothing of them left.

Attacks that other tests prove, in test_docker_sandbox where nothing else is said:

| attack | test |
|---|---|
| a step that never ends, with children | test_a_build_over_its_time_is_stopped_with_its_processes |
| ENTRYPOINT and HEALTHCHECK that would run | test_an_entrypoint_and_a_healthcheck_of_the_image_do_not_run |
| devices and pipes made by a step | test_a_device_of_the_image_does_not_come_back |
| a wrong Dockerfile | test_a_wrong_dockerfile_is_data |
| a failing step | test_a_failed_build_tells_step_code_and_log_and_leaves_nothing |
| names that leave the context | sandbox_contract: an_unsafe_path_in_a_context_fails_the_build |
"""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import tracemalloc
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.adapters.sandbox_contract import SUBJECT, built, shell
from facet_dagster.domain.archive import unpack
from facet_dagster.domain.trial import Limits
from facet_dagster.ports import BuildContext, BuildFailed, Built
from tests.fixtures.engines import BASE, MARK, MIB, connect, hostile, nothing_left, processes

pytestmark = pytest.mark.docker
SMALL = Limits(memory=128 * MIB, cpus=1, pids=50, disk=64 * MIB, archive=MIB, entries=100)
BUILDERS = pytest.mark.parametrize("classic", [False, True], ids=["buildkit", "classic"])
MEMORY = "import time\nx = [bytearray(4 << 20) for _ in range(500)]\ntime.sleep(60)\n"
# A fork that fails ends nothing here: what is told must be the limit, not a program's answer to it.
FORKS = "import os, time\nwhile True:\n  try: os.fork()\n  except OSError: time.sleep(60)\n"
FILL = "import os\nwhile True: open('/fill' + os.urandom(8).hex(), 'wb').write(bytes(4_000_000))\n"
INODES = "import time\nfor n in range(100_000): open(f'/file{n}', 'wb').close()\ntime.sleep(60)\n"


@pytest.fixture(scope="module", autouse=True)
def api() -> Iterator[Any]:
    client = connect()
    nothing_left(client)
    yield client
    nothing_left(client)
    client.close()


@pytest.fixture(scope="module")
def slots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("slots")


def sandbox_of(slots: Path, *, classic: bool = False, **more: Any) -> DockerSandbox:
    return DockerSandbox(slots_dir=slots, classic_builder=classic, build_limits=SMALL, **more)


def failed(slots: Path, what: BuildContext, *, classic: bool = False, **more: Any) -> BuildFailed:
    sandbox = sandbox_of(slots, classic=classic, **more)
    result = sandbox.build(what, subject=SUBJECT, seconds=50)
    sandbox.close()
    assert isinstance(result, BuildFailed), result
    return result


@BUILDERS
@pytest.mark.parametrize(
    ("program", "limit", "says"),
    [
        (MEMORY, "memory", "more than 128 MiB of memory"),
        (FORKS, "processes", "more than 50 processes and threads"),
        (FILL, "disk", "wrote more than 64 MiB"),
        (INODES, "disk", "wrote more than 64 MiB"),
    ],
    ids=["memory", "forks", "disk", "files"],
)
def test_a_step_that_takes_too_much_is_stopped(slots: Path, program: str, limit: str, says: str, classic: bool) -> None:
    name = f"m{uuid.uuid4().hex}.py"
    what = hostile(f"python3 /app/{name}", files={f"app/{name}": program.encode()})
    result = failed(slots, what, classic=classic)
    assert result.step == limit
    assert result.exit_code is None
    assert says in result.log_tail
    assert name in result.log_tail, "the step that did it is named"
    assert not processes(name)


def test_a_program_that_the_kernel_ended_for_its_memory_is_told_too(slots: Path) -> None:
    """As fast as the kernel: what is over the limit between two looks."""
    name = f"m{uuid.uuid4().hex}.py"
    program = "import os, time\ntime.sleep(1)\nx = bytearray(os.urandom(1) * (1 << 30))\n"
    result = failed(slots, hostile(f"python3 /app/{name}", files={f"app/{name}": program.encode()}))
    assert result.step == "memory"


@BUILDERS
def test_a_step_within_its_limits_is_left_alone(slots: Path, classic: bool) -> None:
    step = "python3 -c 'x = bytearray(60 << 20)'; head -c 30000000 /dev/zero > /x; (sleep 1 & sleep 1; wait)"
    sandbox = sandbox_of(slots, classic=classic)
    with built(sandbox, hostile(step)) as image:
        assert (image.reused, image.executed) == (False, 2)
    sandbox.close()


@BUILDERS
@pytest.mark.parametrize("end", ["true", "false"])
def test_a_stage_from_which_files_are_copied_leaves_no_layer(slots: Path, api: Any, classic: bool, end: str) -> None:
    lines = f"FROM {BASE} AS made\nRUN : {MARK}; echo {uuid.uuid4().hex} > /x\nFROM {BASE}\nCOPY --from=made /x /x\n"
    sandbox = sandbox_of(slots, classic=classic)
    result = sandbox.build(BuildContext({"Dockerfile": f"{lines}RUN : {MARK}; {end}\n".encode()}), subject=SUBJECT)
    if isinstance(result, Built):
        sandbox.remove_image(result.image)
    sandbox.close()
    assert isinstance(result, Built) == (end == "true")
    nothing_left(api)


@BUILDERS
def test_a_flood_of_output_takes_no_memory_and_its_end_is_kept(slots: Path, classic: bool) -> None:
    step = "head -c 100000000 /dev/zero | tr '\\0' x | fold -w 4000; printf '\\377\\000the-very-end'; exit 3"
    tracemalloc.start()
    result = failed(slots, hostile(step), classic=classic)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.exit_code == 3
    assert "the-very-end" in result.log_tail
    assert len(result.log_tail.encode()) <= 16 * 1024
    assert peak < 16 * MIB


def test_an_endless_flood_ends_with_its_time(slots: Path) -> None:
    mark = f"y{uuid.uuid4().hex}"
    sandbox = sandbox_of(slots)
    result = sandbox.build(hostile(f"exec yes {mark}"), subject=SUBJECT, seconds=4)
    sandbox.close()
    assert isinstance(result, BuildFailed)
    assert result.step == "timeout"
    assert mark in result.log_tail
    assert result.seconds >= 4
    assert not processes(f"^yes {mark}")


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({f"app/{n}": b"" for n in range(100)}, "101 files; at most 100"),
        ({"app/big": bytes(MIB)}, "at most 1048576"),
    ],
)
def test_a_context_over_its_limits_is_refused(slots: Path, files: dict[str, bytes], says: str) -> None:
    result = failed(slots, hostile("true", files=files))
    assert result.step == "context"
    assert says in result.log_tail


@BUILDERS
def test_ignored_files_do_not_reach_the_image_and_count_for_nothing(slots: Path, classic: bool) -> None:
    ignore = b"# a comment\n*.big\n**/tmp\ndocs/*\n!docs/kept\nDockerfile\n"
    kept = {"a": b"1", "docs/kept": b"2", "unique": uuid.uuid4().hex.encode()}
    left_out = {"x.big": bytes(2 * MIB), "docs/gone": b"", "sub/tmp/x": b"", "tmp": b""}
    head = {"Dockerfile": f"FROM {BASE}\nCOPY . /x/\nRUN : {MARK}\n".encode(), ".dockerignore": ignore}
    sandbox = sandbox_of(slots, classic=classic)
    with built(sandbox, BuildContext({**head, **kept, **left_out})) as image:
        archive = sandbox.read(image.image, "/x")
        assert archive is not None
        found = {name for name, member in unpack(archive).items() if member.type == "file"}
        assert found == {f"x/{name}" for name in (*kept, "Dockerfile")}
        assert sandbox.build(BuildContext({**head, **kept}), subject=SUBJECT).reused is True, "one content"
    sandbox.close()


@pytest.mark.parametrize(
    "line",
    [
        "ADD http://127.0.0.1:9/x /x",
        "ADD --chown=0:0 https://127.0.0.1:9/x /x",
        'ADD ["http://127.0.0.1:9/x", "/x"]',
        "A\\\nDD http://127.0.0.1:9/x /x",
        "ENV U=http://127.0.0.1:9/x\nADD $U /x",
        "ADD git@127.0.0.1:x.git /x",
        "# escape=`",
        "# syntax=docker/dockerfile:1",
        "RUN cat <<END\nADD http://127.0.0.1:9/x /x\nEND",
    ],
)
def test_what_the_builder_would_fetch_itself_is_refused_without_network(slots: Path, line: str) -> None:
    what = f"{line}\nFROM {BASE}\n" if line.startswith("#") else f"FROM {BASE}\n{line}\n"
    result = failed(slots, BuildContext({"Dockerfile": what.encode()}), build_network="none")
    assert "put the file into the build context" in result.log_tail
    assert result.seconds < 5


@BUILDERS
def test_a_step_has_no_network_where_it_is_off(slots: Path, classic: bool) -> None:
    with server(b"secret") as url:
        step = f"python3 -c 'import urllib.request as u; u.urlopen(\"{url}\", timeout=5)'"
        result = failed(slots, hostile(step), classic=classic, build_network="none")
    assert result.exit_code == 1
    assert "URLError" in result.log_tail


@pytest.mark.parametrize(
    "lines", [f"FROM {BASE}\nFROM facet-absent:1\n", f"FROM {BASE}\nCOPY --chmod=755 --from=facet-absent:1 /x /x\n"]
)
def test_no_second_image_is_fetched_either(slots: Path, lines: str) -> None:
    result = failed(slots, BuildContext({"Dockerfile": lines.encode()}))
    assert result.step == "FROM facet-absent:1"
    assert BASE in result.log_tail


def test_an_environment_is_built_again_when_its_source_is_gone(slots: Path) -> None:
    sandbox = sandbox_of(slots, build_network="host")
    with server(b"from the network") as url:
        what = hostile(
            f'python3 -c \'import urllib.request as u; open("/got", "wb").write(u.urlopen("{url}").read())\''
        )
        first = sandbox.build(what, subject=SUBJECT)
    assert isinstance(first, Built), first
    assert first.executed == 2
    sandbox.remove_image(first.image)
    second = sandbox.build(what, subject=SUBJECT)
    assert isinstance(second, Built), second
    assert (second.reused, second.executed) == (False, 0)
    assert shell(sandbox, second.image, "cat /got").program.output == "from the network"
    sandbox.remove_image(second.image)
    sandbox.close()


@contextlib.contextmanager
def server(content: bytes) -> Iterator[str]:
    """URL of a small file on this machine's loopback."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}/file"
        listening.shutdown()
        thread.join()


@BUILDERS
def test_builds_use_the_proxies_of_dockers_configuration_and_runs_do_not(
    slots: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, classic: bool
) -> None:
    proxies = {"default": {"httpProxy": "http://proxy.example:3128", "noProxy": "localhost"}}
    (tmp_path / "config.json").write_text(json.dumps({"proxies": proxies}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    step = f': {uuid.uuid4().hex}; test "$HTTP_PROXY$no_proxy" = http://proxy.example:3128localhost'
    sandbox = sandbox_of(slots, classic=classic)
    with built(sandbox, hostile(step)) as image:
        assert "proxy.example" not in shell(sandbox, image.image, "env").program.output
    sandbox.close()
