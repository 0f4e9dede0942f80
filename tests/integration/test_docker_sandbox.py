"""DockerSandbox against hostile programs, on a real engine."""

from __future__ import annotations

import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import docker
import pytest

from benchmarks.sandbox.calls import counted
from facet_dagster.adapters.docker_disk import DiskLimits
from facet_dagster.adapters.docker_labels import OWNER, RUN
from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.adapters.sandbox_contract import SUBJECT, built, context, shell
from facet_dagster.domain.archive import Member, pack, pack_members, unpack
from facet_dagster.domain.trial import End, Limits
from facet_dagster.errors import SandboxError
from facet_dagster.ports import BuildContext, BuildFailed, Built, Put, Run
from tests.fixtures.engines import eventually

pytestmark = pytest.mark.docker
BASE = "python:3.11-slim-bookworm"
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def api() -> Iterator[docker.APIClient]:
    client = docker.APIClient(version="auto", **docker.utils.kwargs_from_env())
    yield client
    client.close()


@pytest.fixture(scope="module")
def slots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("slots")


@pytest.fixture(scope="module")
def sandbox(api: docker.APIClient, slots: Path) -> Iterator[DockerSandbox]:
    """Checks at the end that nothing of the whole module is left on the engine."""
    made = DockerSandbox(pause_image=BASE, slots_dir=slots)
    yield made
    made.close()
    assert list(slots.glob("*/exchange/*")) == []
    left = {"label": f"{RUN}={made.run_id}"}
    assert api.containers(all=True, filters=left) == []
    assert api.images(all=True, filters=left) == []
    assert not api.volumes(filters=left)["Volumes"]
    assert api.networks(filters=left) == []


def limits(seconds: float = 20, memory: int = 64 * MIB, disk: int = 32 * MIB, pids: int = 64, **more: int) -> Limits:
    return Limits(seconds=seconds, memory=memory, disk=disk, pids=pids, **more)


def collected(sandbox: DockerSandbox, script: str, caps: Limits | None = None) -> dict[str, Member]:
    run = Run(BASE, ("sh", "-c", script), SUBJECT, collect=("/out",), limits=caps or limits())
    archive = sandbox.run(run).collected["/out"]
    assert archive is not None
    return unpack(archive)


def test_children_that_left_the_session_die_at_the_deadline(sandbox: DockerSandbox) -> None:
    mark = f"7{uuid.uuid4().int % 10**8}"
    script = f"setsid sleep {mark} & (setsid sleep {mark} &) ; trap '' TERM; sleep {mark}"
    assert shell(sandbox, BASE, script, limits=limits(seconds=1)).program.end is End.TIMEOUT
    assert subprocess.run(["pgrep", "-f", f"sleep {mark}"], capture_output=True, check=False).stdout == b""


def test_a_flood_of_output_is_bounded_and_its_end_kept(sandbox: DockerSandbox) -> None:
    script = "head -c 12000000 /dev/zero | tr '\\0' 'x' | fold -w 4000; echo the-very-end"
    program = shell(sandbox, BASE, script, limits=limits(output=10_000)).program
    assert program.end is End.EXITED
    assert program.output.endswith("the-very-end\n")
    assert len(program.output) < 10_100


def test_output_that_is_no_text_is_made_text(sandbox: DockerSandbox) -> None:
    program = shell(sandbox, BASE, "printf '\\377\\000ok'").program
    assert program.output == "\ufffdok"


@pytest.mark.parametrize("after", ["", "; exit 3"])
def test_memory_over_the_limit_is_told_apart_from_an_exit(sandbox: DockerSandbox, after: str) -> None:
    program = shell(sandbox, BASE, f"python3 -c 'bytearray(500 << 20)'{after}", limits=limits()).program
    assert program.end is End.OOM
    assert not program.ok


def test_a_fork_bomb_is_contained(sandbox: DockerSandbox) -> None:
    script = "import os\nn = 0\ntry:\n  while os.fork(): n += 1\nexcept OSError: print(n)\nimport time; time.sleep(1)"
    run = Run(BASE, ("python3", "-c", script), SUBJECT, limits=limits(pids=32))
    assert int(sandbox.run(run).program.output.split()[0]) < 32


def test_many_files_over_the_disk_limit_end_the_program(sandbox: DockerSandbox) -> None:
    script = "i=0; while true; do head -c 4000000 /dev/zero > /fill$i; i=$((i+1)); done"
    assert shell(sandbox, BASE, script, limits=limits()).program.end is End.DISK


def test_one_file_over_the_disk_limit_ends_the_program(sandbox: DockerSandbox) -> None:
    assert shell(sandbox, BASE, "exec head -c 99000000 /dev/zero > /fill", limits=limits()).program.end is End.DISK


def test_loopback_works_and_the_outside_does_not_exist(sandbox: DockerSandbox) -> None:
    script = """
import socket
server = socket.create_server(("127.0.0.1", 80))
socket.create_connection(("127.0.0.1", 80))
print("loopback")
try:
    socket.create_connection(("192.0.2.1", 80), 5)
except OSError as error:
    print(error)
"""
    program = sandbox.run(Run(BASE, ("python3", "-c", script), SUBJECT, limits=limits())).program
    assert program.output == "loopback\n[Errno 101] Network is unreachable\n"


def test_a_port_is_free_again_for_the_next_run(sandbox: DockerSandbox) -> None:
    script = "import socket; socket.create_server(('127.0.0.1', 8000)); print('ok')"
    run = Run(BASE, ("python3", "-c", script), SUBJECT, limits=limits())
    assert [sandbox.run(run).program.output for _ in range(2)] == ["ok\n", "ok\n"]


def test_a_program_can_run_without_root(sandbox: DockerSandbox) -> None:
    program = shell(sandbox, BASE, "id -u; grep CapEff /proc/self/status; touch /x 2>&1", user="1234:1234").program
    assert program.output.splitlines()[:2] == ["1234", "CapEff:\t0000000000000000"]
    assert program.exit_code != 0


def test_root_gets_five_capabilities(sandbox: DockerSandbox) -> None:
    output = shell(
        sandbox, BASE, "grep CapEff /proc/self/status; touch /f && chown 5:5 /f && mount -t tmpfs x /mnt 2>&-"
    )
    mask = int(output.program.output.split()[1], 16)
    assert mask == sum(1 << bit for bit in (0, 1, 3, 6, 7)), "CHOWN DAC_OVERRIDE FOWNER SETGID SETUID"
    assert output.program.exit_code != 0


@pytest.mark.parametrize(("user", "workdir"), [("no-such-user", "/"), ("root", "/etc/passwd")])
def test_an_image_that_cannot_run_the_program_is_data(sandbox: DockerSandbox, user: str, workdir: str) -> None:
    run = Run(BASE, ("true",), SUBJECT, user=user, workdir=workdir)
    program = sandbox.run(run).program
    assert (program.end, program.exit_code) == (End.EXITED, 126)
    assert program.output


def test_only_files_folders_and_links_come_back(sandbox: DockerSandbox) -> None:
    script = (
        "mkdir -p /out/d && cd /out && echo x > a && ln a hard && ln -s /etc/passwd link && mkfifo fifo && "
        'touch -- -rf "$(printf "new\\nline")" && chmod 600 a && chown 5:6 d'
    )
    found = collected(sandbox, script)
    assert set(found) == {"out", "out/d", "out/a", "out/hard", "out/link", "out/-rf", "out/new\nline"}
    assert (found["out/a"].data, found["out/a"].mode, found["out/hard"].data) == (b"x\n", 0o600, b"x\n")
    assert (found["out/link"].link, found["out/d"].uid, found["out/d"].gid) == ("/etc/passwd", 5, 6)


def test_a_device_of_the_image_does_not_come_back(sandbox: DockerSandbox) -> None:
    with built(sandbox, context(BASE, "mknod /app/null c 1 3 && mkfifo /app/pipe")) as image:
        archive = sandbox.read(image.image, "/app")
        assert archive is not None
        assert set(unpack(archive)) == {"app", "app/unique"}


def test_a_collected_link_is_never_followed(sandbox: DockerSandbox) -> None:
    found = collected(sandbox, "ln -s /etc /out")
    assert [(name, member.type, member.link) for name, member in found.items()] == [("out", "link", "/etc")]


@pytest.mark.parametrize(
    ("script", "caps"),
    [
        ("truncate -s 50G /out/sparse", limits(disk=100 * 1024**3, archive=MIB)),
        ("for i in 1 2 3; do head -c 900000 /dev/zero > /out/$i; done", limits(archive=2 * MIB)),
        ("cd /out && seq 300 | xargs touch", limits(entries=200)),
    ],
)
def test_too_much_to_collect_is_a_disk_end_without_archives(sandbox: DockerSandbox, script: str, caps: Limits) -> None:
    run = Run(BASE, ("sh", "-c", f"mkdir /out && {script}"), SUBJECT, collect=("/out",), limits=caps)
    outcome = sandbox.run(run)
    assert outcome.program.end is End.DISK
    assert outcome.collected == {"/out": None}


def test_files_arrive_with_owner_and_mode_and_below_their_target(sandbox: DockerSandbox) -> None:
    tar = pack({"d/run": b"exec id -u", "-rf": b""}, executable={"d/run"}, folders=["d"], uid=1000, gid=1000)
    run = Run(
        BASE, ("sh", "-c", "cd /new/place && stat -c '%n %u %a' -- * d/run"), SUBJECT, put=(Put("/new/place", tar),)
    )
    assert sandbox.run(run).program.output.splitlines() == ["-rf 1000 644", "d 1000 755", "d/run 1000 755"]


@pytest.mark.parametrize("name", ["../escape", "/absolute", "a/../../escape"])
def test_an_archive_that_would_leave_its_target_is_refused(sandbox: DockerSandbox, name: str) -> None:
    tar = pack_members({name: Member("file")})
    with pytest.raises(SandboxError, match="cannot be put"):
        sandbox.run(Run(BASE, ("true",), SUBJECT, put=(Put("/in", tar),)))


def test_links_of_an_artifact_can_be_put_again(sandbox: DockerSandbox) -> None:
    tar = pack_members({"app/up": Member("link", link="../../../etc/hostname")})
    run = Run(BASE, ("readlink", "/judge/app/up"), SUBJECT, put=(Put("/judge", tar),))
    assert sandbox.run(run).program.output == "../../../etc/hostname\n"


@pytest.fixture(scope="module", params=["folders", "archives"])
def either(request: pytest.FixtureRequest, slots: Path) -> Iterator[DockerSandbox]:
    """Files go by mounted folders, or through the engine."""
    made = DockerSandbox(pause_image=BASE, slots_dir=slots, shared_folders=request.param == "folders")
    yield made
    made.close()
    assert list(slots.glob("*/exchange/*")) == [], "a folder stays behind"


def test_files_go_in_and_come_out_alike_by_both_ways(either: DockerSandbox) -> None:
    put = pack_members(
        {
            "app": Member("dir", 0o750, 1000, 1000),
            "app/run": Member("file", 0o755, 1000, 1000, data=b"#!/bin/sh\nid -u > /logs/verifier/id\n"),
            "app/up": Member("link", 0o777, 1000, 1000, link="../../etc/hostname"),
            "solution": Member("dir", 0o755),
            "solution/-rf": Member("file", 0o600, data=b"secret"),
        }
    )
    script = "/app/run && ! cat /solution/-rf 2>&- && touch /app/x && stat -c '%n %u %a' /app /app/run /solution/-rf"
    run = Run(BASE, ("sh", "-c", script), SUBJECT, user="1000:1000", put=(Put("/", put),), outbox=("/logs/verifier",))
    outcome = either.run(run)
    assert outcome.program.output.splitlines() == ["/app 1000 750", "/app/run 1000 755", "/solution/-rf 0 600"]
    archive = outcome.collected["/logs/verifier"]
    assert archive is not None
    found = unpack(archive)
    assert (found["verifier"].mode, found["verifier/id"].data, found["verifier/id"].uid) == (0o777, b"1000\n", 1000)


def test_an_outbox_is_within_the_limits_by_both_ways(either: DockerSandbox) -> None:
    script = "i=0; while true; do head -c 4000000 /dev/zero > /out/fill$i; i=$((i+1)); done"
    outcome = either.run(Run(BASE, ("sh", "-c", script), SUBJECT, outbox=("/out",), limits=limits()))
    assert outcome.program.end is End.DISK


def test_what_an_outbox_holds_is_read_safely_by_both_ways(either: DockerSandbox) -> None:
    script = "cd /out && ln -s /etc/shadow link && mkfifo pipe && echo x > a && ln a b && mkdir -p d/e && chmod 0 a d"
    archive = either.run(Run(BASE, ("sh", "-c", script), SUBJECT, outbox=("/out",))).collected["/out"]
    assert archive is not None
    found = unpack(archive)
    assert set(found) == {"out", "out/link", "out/a", "out/b", "out/d", "out/d/e"}
    assert (found["out/link"].link, found["out/a"].data) == ("/etc/shadow", b"x\n")


def test_files_in_the_root_go_as_an_archive(sandbox: DockerSandbox) -> None:
    run = Run(BASE, ("cat", "/here"), SUBJECT, put=(Put("/", pack({"here": b"there"})),), outbox=("/out",))
    assert sandbox.run(run).program.output == "there"


def test_an_entrypoint_and_a_healthcheck_of_the_image_do_not_run(sandbox: DockerSandbox) -> None:
    lines = f'FROM {BASE}\nENTRYPOINT ["echo", "entry"]\nCMD ["cmd"]\nHEALTHCHECK CMD touch /checked\n'
    with built(sandbox, BuildContext({"Dockerfile": lines.encode()})) as image:
        run = Run(image.image, ("echo", "mine"), SUBJECT, env={"A": "b"})
        assert sandbox.run(run).program.output == "mine\n"


@pytest.mark.parametrize("classic", [False, True])
def test_a_failed_build_tells_step_code_and_log_and_leaves_nothing(
    api: docker.APIClient, slots: Path, classic: bool
) -> None:
    builder = DockerSandbox(slots_dir=slots, classic_builder=classic)
    unique = uuid.uuid4().hex
    before = {image["Id"] for image in api.images(all=True, filters={"label": "facet.base"})}
    failed = builder.build(context(BASE, f"echo {unique} > /x", "printf '\\033[31mred\\033[0m'; exit 9"), subject="s")
    builder.close()
    assert isinstance(failed, BuildFailed)
    assert failed.exit_code == 9
    assert failed.step.startswith("RUN printf")
    assert "red" in failed.log_tail
    assert "\x1b" not in failed.log_tail.replace("\\033", "")
    assert api.images(all=True, filters={"label": f"{RUN}={builder.run_id}"}) == []
    client: Any = api
    new = {image["Id"] for image in api.images(all=True, filters={"label": "facet.base"})} - before
    assert not any(unique in step["CreatedBy"] for ident in new for step in client.history(ident))


@pytest.mark.parametrize(
    ("dockerfile", "step", "says"),
    [
        (f"FROM {BASE}\nRUNN x\n", "Dockerfile", "unknown instruction"),
        (f"FROM {BASE}\nCOPY absent /x\n", "COPY absent /x", "absent"),
        ("", "Dockerfile", ""),
    ],
)
def test_a_wrong_dockerfile_is_data(sandbox: DockerSandbox, dockerfile: str, step: str, says: str) -> None:
    failed = sandbox.build(BuildContext({"Dockerfile": dockerfile.encode()}), subject=SUBJECT)
    assert isinstance(failed, BuildFailed)
    assert failed.step.startswith(step)
    assert says in failed.log_tail


@pytest.mark.parametrize("classic", [False, True])
def test_a_build_over_its_time_is_stopped_with_its_processes(api: docker.APIClient, slots: Path, classic: bool) -> None:
    mark = f"8{uuid.uuid4().int % 10**8}"
    before = {image["Id"] for image in api.images(all=True, filters={"dangling": True})}
    builder = DockerSandbox(slots_dir=slots, classic_builder=classic)
    failed = builder.build(context(BASE, f"sleep {mark}"), subject=SUBJECT, seconds=2)
    builder.close()
    assert isinstance(failed, BuildFailed)
    assert failed.step == "timeout"
    assert f"sleep {mark}" in failed.log_tail
    # Others build meanwhile: what they leave for a moment does not stay.
    eventually(lambda: {image["Id"] for image in api.images(all=True, filters={"dangling": True})} <= before)
    for _ in range(50):
        if not subprocess.run(["pgrep", "-f", f"^sleep {mark}"], capture_output=True, check=False).stdout:
            return
        subprocess.run(["sleep", "0.1"], check=True)
    pytest.fail("the build's process lives on")


def test_equal_builds_at_the_same_time_build_once(sandbox: DockerSandbox) -> None:
    what = context(BASE, "true")
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda _: sandbox.build(what, subject=SUBJECT), range(3)))
    tags = {result.image for result in results if isinstance(result, Built)}
    assert len(tags) == 1
    assert sorted(result.reused for result in results if isinstance(result, Built)) == [False, True, True]
    sandbox.remove_image(tags.pop())


def test_a_file_of_a_context_is_executable_when_it_says_so(sandbox: DockerSandbox) -> None:
    files = {"Dockerfile": f"FROM {BASE}\nCOPY run.sh /run.sh\n".encode(), "run.sh": b"#!/bin/sh\necho ran\n"}
    with built(sandbox, BuildContext(files, frozenset({"run.sh"}))) as image:
        assert sandbox.run(Run(image.image, ("/run.sh",), SUBJECT)).program.output == "ran\n"


def test_a_dead_pause_container_is_replaced(sandbox: DockerSandbox, api: docker.APIClient) -> None:
    shell(sandbox, BASE, "true")
    for container in api.containers(filters={"label": f"{RUN}={sandbox.run_id}"}):
        api.kill(container["Id"])
    assert shell(sandbox, BASE, "echo alive").program.output == "alive\n"


def test_an_image_is_read_once_as_long_as_it_is_there(sandbox: DockerSandbox) -> None:
    with built(sandbox, context(BASE, "true")) as image:
        first = sandbox.read(image.image, "/app")
        with counted() as calls:
            assert sandbox.read(image.image, "/app") == first
        assert calls == {"GET /images/*/json": 1}
    with pytest.raises(SandboxError, match="not on the engine"):
        sandbox.read(image.image, "/app")


def test_reading_more_than_the_limits_is_an_error(sandbox: DockerSandbox) -> None:
    with pytest.raises(SandboxError, match="over its limits"):
        sandbox.read(BASE, "/usr/lib", Limits(entries=10))


HOLD = f"""
import docker, pathlib, sys, threading
from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.adapters.sandbox_contract import context, shell
sandbox = DockerSandbox(pause_image="{BASE}", slots_dir=pathlib.Path(sys.argv[1]))
client = docker.APIClient(version="auto", **docker.utils.kwargs_from_env())
print(sandbox.build(context("{BASE}"), subject="held").image, flush=True)
threading.Thread(target=shell, args=(sandbox, "{BASE}", "sleep 300"), daemon=True).start()
while True:
    with_ids = client.containers(filters={{"label": "facet.run=" + sandbox.run_id}})
    if len(with_ids) == 2:
        print(" ".join(c["Id"] for c in with_ids), flush=True)
        threading.Event().wait()
"""


def test_what_a_killed_process_held_is_reaped_and_nothing_else(
    sandbox: DockerSandbox, api: docker.APIClient, tmp_path: Path
) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    image, containers = holder.stdout.readline().strip(), holder.stdout.readline().split()
    assert len(containers) == 2, "the running trial and its pause container"
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    with built(sandbox, context(BASE)) as mine:
        reaped = sandbox.reap(images=True)
        assert set(containers) <= set(reaped.containers)
        assert image in reaped.images
        assert mine.image not in reaped.images
    assert sandbox.image(image) is None
    assert sandbox.image(BASE) is not None
    assert shell(sandbox, BASE, "echo still here").program.ok
    assert not {c["Id"] for c in api.containers(all=True)} & set(containers)


def test_an_image_in_use_is_not_taken_away(sandbox: DockerSandbox, api: docker.APIClient) -> None:
    with built(sandbox, context(BASE)) as image:
        user = api.create_container(image.image, ["sleep", "60"], labels={RUN: sandbox.run_id})["Id"]
        api.start(user)
        sandbox.remove_image(image.image)
        still_there = sandbox.image(image.image) is not None
        api.remove_container(user, force=True)
        assert still_there


def test_a_second_reap_finds_nothing(sandbox: DockerSandbox) -> None:
    sandbox.reap()
    assert sandbox.reap().containers == ()


def test_volumes_and_networks_of_dead_owners_are_reaped(sandbox: DockerSandbox, api: docker.APIClient) -> None:
    dead = {OWNER: f"{subprocess.check_output(['uname', '-n'], text=True).strip()}:1:1:another-boot"}
    volume = api.create_volume(f"facet-{uuid.uuid4().hex}", labels=dead)["Name"]
    kept = api.create_volume(f"facet-{uuid.uuid4().hex}", labels={OWNER: "elsewhere:1:1:1"})["Name"]
    network = api.create_network(f"facet-{uuid.uuid4().hex}", driver="bridge", internal=True, labels=dead)["Id"]
    reaped = sandbox.reap()
    assert volume in reaped.volumes
    assert kept not in reaped.volumes
    assert network in reaped.networks
    api.remove_volume(kept)


def test_a_volume_of_the_image_goes_with_its_container(sandbox: DockerSandbox, api: docker.APIClient) -> None:
    with built(sandbox, BuildContext({"Dockerfile": f"FROM {BASE}\nVOLUME /data\n".encode()})) as image:
        before = {volume["Name"] for volume in api.volumes()["Volumes"] or []}
        run = Run(image.image, ("sh", "-c", "echo x > /data/y"), SUBJECT, collect=("/data",))
        archive = sandbox.run(run).collected["/data"]
        assert archive is not None
        assert unpack(archive)["data/y"].data == b"x\n"
        # Others run meanwhile: what they have for a moment does not stay.
        eventually(lambda: not {v["Name"] for v in api.volumes()["Volumes"] or [] if not v.get("Labels")} - before)


def test_below_the_floor_nothing_runs_and_nothing_is_blamed(slots: Path) -> None:
    full = DockerSandbox(slots_dir=slots, disk=DiskLimits(watermark=0, floor=1e9))
    with pytest.raises(SandboxError, match="free some disk space there before running anything"):
        shell(full, BASE, "true")
    full.close()
