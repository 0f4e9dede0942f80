"""Hostile programs in containers and trials, on a real engine: contained, read as data, and nothing of them left.

Attacks that other tests prove, in test_docker_sandbox where nothing else is said:

| attack | test |
|---|---|
| fork bomb | test_a_fork_bomb_is_contained |
| memory bomb | test_memory_over_the_limit_is_told_apart_from_an_exit |
| disk filler | test_many_files_over_the_disk_limit_end_the_program, test_one_file_over_the_disk_limit_... |
| binary output | test_output_that_is_no_text_is_made_text |
| sleeping forever, TERM ignored, own sessions | test_children_that_left_the_session_die_at_the_deadline |
| huge sparse file, too many bytes | test_too_much_to_collect_is_a_disk_end_without_archives |
| devices, pipes, hard links in what is collected | test_only_files_folders_and_links_come_back |
| a folder replaced by a link | test_a_collected_link_is_never_followed |
| archives that leave their target | test_an_archive_that_would_leave_its_target_is_refused |
| a verifier or a solution that hangs | test_trial_docker: test_a_verifier_that_hangs_is_blamed |
| the wire to the engine cut | test_docker_lost_engine |
| builds | test_attacks_build |
| an engine that dies, lies or is full | test_attacks_engine |
"""

from __future__ import annotations

import shutil
import threading
import tracemalloc
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from facet_dagster.adapters import docker_engine
from facet_dagster.adapters.docker_labels import RUN
from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.adapters.sandbox_contract import SUBJECT, built, shell
from facet_dagster.domain.archive import unpack
from facet_dagster.domain.trial import End, Limits, Trial, TrialKind
from facet_dagster.errors import SandboxError
from facet_dagster.ports import BuildContext, Put, Run
from facet_dagster.stages.task.images import Images
from facet_dagster.stages.task.package import TaskLimits
from facet_dagster.stages.task.trial import LOGS, Trials, read_result
from tests.fixtures.engines import BASE, MARK, MIB, connect, hostile, nothing_left, processes

pytestmark = pytest.mark.docker
LIMITS = Limits(seconds=60, memory=128 * MIB, disk=64 * MIB, pids=64)
REWARD = "mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt; "


@pytest.fixture(scope="module", autouse=True)
def api() -> Iterator[Any]:
    client = connect()
    nothing_left(client)
    yield client
    nothing_left(client)
    client.close()


@pytest.fixture(scope="module")
def sandbox(api: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerSandbox]:
    made = DockerSandbox(pause_image=BASE, slots_dir=tmp_path_factory.mktemp("slots"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def image(sandbox: DockerSandbox) -> Iterator[str]:
    """A work image with the user and the folder that a task has."""
    with built(sandbox, hostile("useradd --create-home agent && chown -R agent /app && rm /app/*")) as work:
        yield work.image


def python(sandbox: DockerSandbox, program: str, **more: Any) -> Any:
    return sandbox.run(Run(BASE, ("python3", "-c", program), SUBJECT, **{"limits": LIMITS, **more}))


def judged(sandbox: DockerSandbox, image: str, solve: str, test: str) -> Trial:
    """A trial whose verifier is ``test``, a shell script that prints a message and is believed."""
    script = f"{REWARD}cd /logs/verifier\nmessage=$({test})\n"
    script += 'printf \'[{"id":"C1","rid":"R1","status":"pass","message":"%s"}]\' "$message" > checks.json\n'
    files = {"Dockerfile": f"FROM {BASE}\nCOPY test.sh /tests/test.sh\nRUN : {MARK}\n".encode()}
    with built(sandbox, BuildContext({**files, "test.sh": script.encode()})) as verifier:
        bench = Trials(Images(image, verifier.image), sandbox, TaskLimits.of(30), SUBJECT)
        return bench.run(TrialKind.ORACLE, solve.encode())


def test_a_gigabyte_of_output_takes_no_memory_and_its_end_is_kept(sandbox: DockerSandbox) -> None:
    lines = "yes $(head -c 4000 /dev/zero | tr '\\0' x) | head -c 1000000000"
    program = f"{lines}; printf '\\377\\000the-very-end'"
    tracemalloc.start()
    result = shell(sandbox, BASE, program, limits=LIMITS.model_copy(update={"seconds": 300, "output": 10_000})).program
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.end is End.EXITED
    assert result.output.endswith("the-very-end")
    assert len(result.output) < 10_100
    assert peak < 24 * MIB


def test_daemons_do_not_outlive_their_program(sandbox: DockerSandbox) -> None:
    mark = f"6{uuid.uuid4().int % 10**8}"
    program = f"""
import os, time
for signal in range(2):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execvp("sleep", ["sleep", "{mark}"])
        os._exit(0)
time.sleep(0.5)
print("parent ends")
"""
    result = python(sandbox, program).program
    assert (result.end, result.exit_code, result.output) == (End.EXITED, 0, "parent ends\n")
    assert not processes(f"sleep {mark}")


@pytest.mark.parametrize("kill", ["kill -9 1", "kill -TERM 1", "kill -9 -1", "kill -STOP 1; kill -9 -1; kill -9 $$"])
def test_a_verifier_that_kills_everything_gives_no_reward(sandbox: DockerSandbox, kill: str) -> None:
    """Its own init cannot be killed from inside; whatever ends, half a result is none."""
    limits = LIMITS.model_copy(update={"seconds": 5})
    run = Run(BASE, ("bash", "-c", f"{REWARD}{kill}; sleep 1; exit 7"), SUBJECT, collect=(LOGS,), limits=limits)
    outcome = sandbox.run(run)
    assert not outcome.program.ok
    assert outcome.collected[LOGS] is not None
    assert read_result(outcome.collected[LOGS]) == (None, ())


def test_names_go_out_and_in_again_byte_for_byte(sandbox: DockerSandbox) -> None:
    names = [
        b"-rf",
        b"new\nline",
        b"\xff\xfe",
        b"caf\xc3\xa9",
        b"caf\xe9",
        b" ",
        b"\x01\x1b[31m",
        b"a" * 255,
        b"*",
        b"\\x",
    ]
    make = f"""
import os
os.mkdir("/out")
for name in {names!r}:
    open(b"/out/" + name, "wb").write(name)
os.mkdir(b"/out/\\xe9")
os.symlink(b"\\xff", b"/out/\\xe9/\\xfd")
"""
    archive = python(sandbox, make, collect=("/out",)).collected["/out"]
    assert archive is not None
    show = """
import os
files = {name: open(b"/in/out/" + name, "rb").read() for name in os.listdir(b"/in/out") if name != b"\\xe9"}
print([*sorted(files.items()), os.readlink(b"/in/out/\\xe9/\\xfd")])
"""
    again = python(sandbox, show, put=(Put("/in", archive),)).program
    assert again.output == f"{[*sorted((name, name) for name in names), bytes([255])]}\n"


def test_a_link_to_the_shadow_file_stays_a_link_through_a_whole_trial(sandbox: DockerSandbox, image: str) -> None:
    solve = "ln -s /etc/shadow /app/link; ln -s /etc /app/folder; ln -s ../../../../etc/shadow /app/up"
    test = "cd /app; for f in link folder up; do printf '%s %s %s;' $f \"$(stat -c %F $f)\" $(readlink $f); done"
    trial = judged(sandbox, image, solve, test)
    assert trial.solution is not None
    assert trial.solution.ok
    assert trial.reward == 1
    assert trial.checks[0].message == (
        "link symbolic link /etc/shadow;folder symbolic link /etc;up symbolic link ../../../../etc/shadow;"
    )


def test_what_a_verifier_leaves_behind_links_is_not_read(sandbox: DockerSandbox) -> None:
    program = (
        f"{REWARD}cd /logs/verifier && rm reward.txt && ln -s /etc/shadow checks.json && ln -s /etc/hostname reward.txt"
    )
    outcome = sandbox.run(Run(BASE, ("sh", "-c", program), SUBJECT, collect=(LOGS,), limits=LIMITS))
    archive = outcome.collected[LOGS]
    assert archive is not None
    assert {member.data for member in unpack(archive).values()} == {b""}
    assert read_result(archive) == (None, ())


def test_a_workspace_of_thirty_thousand_files_is_too_much(sandbox: DockerSandbox) -> None:
    make = "import os\nos.mkdir('/out')\nfor n in range(30_000): os.close(os.open(f'/out/{n}', os.O_CREAT))"
    outcome = python(sandbox, make, collect=("/out",))
    assert outcome.program.end is End.DISK
    assert f"More than {LIMITS.entries} entries" in outcome.program.output
    assert outcome.collected == {"/out": None}


class NearlyFull:
    """The free space of every disk, 1 MiB once ``now`` is set."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = threading.Event()
        real = shutil.disk_usage
        small = SimpleNamespace(total=1 << 40, used=1 << 40, free=MIB)
        patch.setattr(docker_engine.shutil, "disk_usage", lambda path: small if self.now.is_set() else real(path))


@pytest.mark.parametrize("solve", ["touch /app/began; sleep 60", "touch /app/began; sleep 0.1; exit 1"])
def test_a_disk_that_gets_full_gives_no_verdict(
    api: Any, image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, solve: str
) -> None:
    """Also when the program was the first to fail of it."""
    full = NearlyFull(monkeypatch)
    sandbox = DockerSandbox(slots_dir=tmp_path)

    def fill_when_it_runs() -> None:
        while not api.containers(filters={"label": f"{RUN}={sandbox.run_id}"}):
            pass
        full.now.set()

    filler = threading.Thread(target=fill_when_it_runs)
    filler.start()
    with pytest.raises(SandboxError, match="full"):
        Trials(Images(image, image), sandbox, TaskLimits.of(30), SUBJECT).run(TrialKind.ORACLE, solve.encode())
    filler.join()
    sandbox.close()
