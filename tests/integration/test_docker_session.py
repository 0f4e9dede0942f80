"""Sessions against hostile programs, on a real engine."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import docker
import pytest

from facet_dagster.adapters.docker_labels import RUN
from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.adapters.sandbox_contract import SUBJECT
from facet_dagster.domain.trial import End, Limits
from facet_dagster.errors import SandboxError
from facet_dagster.ports import Run

pytestmark = pytest.mark.docker
BASE = "python:3.11-slim-bookworm"
MIB = 1024 * 1024
OOM = "python3 -c 'bytearray(500 << 20)'"


@pytest.fixture(scope="module")
def api() -> Iterator[docker.APIClient]:
    client = docker.APIClient(version="auto", **docker.utils.kwargs_from_env())
    yield client
    client.close()


@pytest.fixture(scope="module")
def sandbox(api: docker.APIClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerSandbox]:
    made = DockerSandbox(slots_dir=tmp_path_factory.mktemp("slots"))
    yield made
    made.close()
    assert left(api, made) == []


def left(api: docker.APIClient, sandbox: DockerSandbox) -> list[object]:
    return list(api.containers(all=True, filters={"label": f"{RUN}={sandbox.run_id}"}))


def session_run(seconds: float = 30, output: int = 10_000, user: str = "root") -> Run:
    limits = Limits(seconds=seconds, memory=64 * MIB, disk=32 * MIB, pids=64, output=output)
    return Run(BASE, ("sleep", "300"), SUBJECT, user=user, limits=limits)


def test_a_flood_is_bounded_and_its_end_kept(sandbox: DockerSandbox) -> None:
    with sandbox.open(session_run()) as session:
        done = session.exec(["sh", "-c", "head -c 300000000 /dev/zero | tr '\\0' 'x'; echo the-very-end"])
        assert done.ok
        assert done.output.startswith("[earlier output dropped]\n")
        assert done.output.endswith("the-very-end\n")
        assert len(done.output) < 10_100


def test_an_endless_flood_ends_at_its_deadline(sandbox: DockerSandbox) -> None:
    with sandbox.open(session_run()) as session:
        done = session.exec(["sh", "-c", "yes & setsid yes"], seconds=1)
        assert (done.end, done.output[-4:]) == (End.TIMEOUT, "y\ny\n")


def test_children_that_left_their_session_die_with_the_container(sandbox: DockerSandbox) -> None:
    mark = f"7{uuid.uuid4().int % 10**8}"
    script = f"setsid sleep {mark} & (setsid sleep {mark} &) ; trap '' TERM; exec >&- 2>&-; sleep {mark}"
    with sandbox.open(session_run()) as session:
        assert session.exec(["sh", "-c", script], seconds=1).end is End.TIMEOUT
        assert subprocess.run(["pgrep", "-f", f"sleep {mark}"], capture_output=True, check=False).stdout == b""
        with pytest.raises(SandboxError, match="over"):
            session.exec(["true"])


@pytest.mark.parametrize("after", ["", "; exit 0"])
def test_memory_over_the_limit_is_told_and_the_session_goes_on(sandbox: DockerSandbox, after: str) -> None:
    with sandbox.open(session_run()) as session:
        assert session.exec(["sh", "-c", OOM + after]).end is End.OOM
        assert session.exec(["sh", "-c", "exit 4"]).end is End.EXITED, "told once, of the program it happened to"
        assert session.exec(["sh", "-c", OOM + after]).end is End.OOM


def test_a_kill_is_not_taken_for_lack_of_memory(sandbox: DockerSandbox) -> None:
    with sandbox.open(session_run()) as session:
        killed = session.exec(["sh", "-c", "kill -KILL $$"])
        assert (killed.end, killed.exit_code) == (End.EXITED, 137)


def test_many_files_over_the_disk_limit_end_the_session(sandbox: DockerSandbox) -> None:
    script = "i=0; while true; do head -c 4000000 /dev/zero > /fill$i; i=$((i+1)); done"
    with sandbox.open(session_run()) as session:
        assert session.exec(["sh", "-c", script]).end is End.DISK
        with pytest.raises(SandboxError, match="over"):
            session.exec(["true"])


def test_one_file_over_the_disk_limit_ends_its_program(sandbox: DockerSandbox) -> None:
    with sandbox.open(session_run()) as session:
        assert session.exec(["head", "-c", "99000000", "/dev/zero"]).ok, "output is no file"
        assert session.exec(["sh", "-c", "exec head -c 99000000 /dev/zero > /fill"]).end is End.DISK
        assert session.exec(["rm", "/fill"]).ok


def test_an_ordinary_user_has_no_capabilities_also_where_root_has_some(sandbox: DockerSandbox) -> None:
    show = ["grep", "-E", "^(CapEff|CapPrm|CapAmb|NoNewPrivs)", "/proc/self/status"]
    with sandbox.open(session_run()) as session:
        lines = dict(line.split(":\t") for line in session.exec(show, user="65534").output.splitlines())
        assert {int(lines[name], 16) for name in ("CapEff", "CapPrm", "CapAmb")} == {0}
        assert lines["NoNewPrivs"] == "1"
        assert int(dict(line.split(":\t") for line in session.exec(show).output.splitlines())["CapEff"], 16) != 0


def test_a_child_that_keeps_the_output_does_not_keep_the_exec(sandbox: DockerSandbox) -> None:
    with sandbox.open(session_run()) as session:
        done = session.exec(["sh", "-c", "sleep 200 & echo started; exit 4"], seconds=20)
        assert (done.end, done.exit_code, done.output) == (End.EXITED, 4, "started\n")
        assert session.exec(["true"]).ok


def test_a_session_whose_program_ended_is_an_error_and_its_files_can_be_read(sandbox: DockerSandbox) -> None:
    with sandbox.open(session_run()) as session:
        last = session.exec(["sh", "-c", "echo x > /kept; kill -KILL -1; sleep 5"])
        assert not last.ok
        with pytest.raises(SandboxError, match="ended"):
            session.exec(["true"])
        assert session.collect("/kept")


def test_programs_may_run_beside_each_other(sandbox: DockerSandbox) -> None:
    with sandbox.open(session_run()) as session, ThreadPoolExecutor(4) as pool:
        script = "until test -e /go; do sleep 0.05; done; echo $1"
        waiting = [pool.submit(session.exec, ["sh", "-c", script, "-", str(n)]) for n in range(3)]
        assert session.exec(["touch", "/go"]).ok
        assert sorted(done.result().output for done in waiting) == ["0\n", "1\n", "2\n"]


def test_a_trial_may_run_while_a_session_is_open(tmp_path: Path) -> None:
    only = DockerSandbox(slots_dir=tmp_path, trial_slots=1)
    with only.open(session_run()):
        assert only.run(Run(BASE, ("true",), SUBJECT)).program.ok
    only.close()


def test_nothing_stays_also_after_an_exception(api: docker.APIClient, sandbox: DockerSandbox) -> None:
    with pytest.raises(ZeroDivisionError), sandbox.open(session_run()) as session:
        int(session.exec(["echo", "1"]).output) / len(left(api, sandbox)[1:])
    with pytest.raises(SandboxError, match="cannot start"), sandbox.open(session_run(user="no-such-user")):
        pass
    assert left(api, sandbox) == []


def test_a_container_removed_by_another_is_engine_trouble(api: docker.APIClient, sandbox: DockerSandbox) -> None:
    with sandbox.open(session_run()) as session:
        api.remove_container(left(api, sandbox)[0]["Id"], force=True)  # type: ignore[index]
        with pytest.raises(SandboxError):
            session.exec(["true"])
        with pytest.raises(SandboxError):
            session.collect("/etc")


def test_what_is_too_much_to_collect_is_refused(sandbox: DockerSandbox) -> None:
    run = session_run()
    run = Run(BASE, run.argv, SUBJECT, limits=run.limits.model_copy(update={"archive": 1000}))
    with sandbox.open(run) as session:
        session.exec(["sh", "-c", "head -c 5000 /dev/zero > /big"])
        with pytest.raises(SandboxError, match="limits"):
            session.collect("/big")
        assert session.exec(["true"]).ok
