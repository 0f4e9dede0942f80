"""An engine of the test's own with a small disk: filled by a build, ended and started again while something runs."""

from __future__ import annotations

import contextlib
import shutil
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from facet_dagster.adapters.docker_disk import DiskLimits
from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.adapters.sandbox_contract import SUBJECT, built, shell
from facet_dagster.domain.trial import Limits
from facet_dagster.errors import SandboxError
from facet_dagster.ports import BuildFailed
from tests.fixtures.engines import BASE, MIB, PrivateEngine, connect, eventually, hostile, private_engine, processes

pytestmark = pytest.mark.docker
FILL = "i=0; while true; do head -c 4000000 /dev/zero > /fill$i; i=$((i+1)); done"


@pytest.fixture(scope="module")
def engine() -> Iterator[PrivateEngine]:
    with private_engine(megabytes=1400) as made:
        yield made


@pytest.fixture
def host(engine: PrivateEngine, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DOCKER_HOST", engine.host)
    return engine.host


def sandbox_of(
    tmp_path: Path, *, disk: int = 4096 * MIB, pause: str | None = None, patience: float = 0.5
) -> DockerSandbox:
    return DockerSandbox(
        slots_dir=tmp_path,
        # The files of this engine are in memory and count as such.
        build_limits=Limits(disk=disk, memory=4096 * MIB, pids=64),
        disk=DiskLimits(watermark=0.5, floor=0.4),
        pause_image=pause,
        build_network="none",
        patience=patience,
    )


def free(host: str) -> int:
    return shutil.disk_usage(host.removeprefix("unix://").removesuffix("/docker.sock")).free


def test_a_build_that_fills_the_disk_over_its_limit_is_at_fault_and_gives_it_back(host: str, tmp_path: Path) -> None:
    before = free(host)
    sandbox = sandbox_of(tmp_path, disk=100 * MIB)
    result = sandbox.build(hostile(FILL), subject=SUBJECT)
    assert isinstance(result, BuildFailed)
    assert result.step == "disk"
    eventually(lambda: free(host) > before - 50 * MIB)
    sandbox.close()


def test_an_engine_whose_disk_is_full_says_nothing_about_a_recipe(host: str, tmp_path: Path) -> None:
    sandbox = sandbox_of(tmp_path)
    with pytest.raises(SandboxError, match="disk"):
        sandbox.build(hostile(FILL), subject=SUBJECT)
    eventually(lambda: free(host) > 950 * MIB)
    with built(sandbox, hostile("true")) as image:
        assert not image.reused
    sandbox.close()


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_an_engine_that_goes_and_comes_back_costs_a_run_nothing(
    engine: PrivateEngine, host: str, tmp_path: Path, how: str
) -> None:
    mark = f"5{uuid.uuid4().int % 10**8}"
    sandbox = sandbox_of(tmp_path, pause=BASE)
    assert shell(sandbox, BASE, "true").program.ok
    with lost(engine, how, f"sleep {mark}") as lose, ThreadPoolExecutor(1) as pool:
        future = pool.submit(shell, sandbox, BASE, f"exec sleep {mark}")
        lose()
        with pytest.raises(SandboxError) as caught:
            future.result()
    assert caught.value.transient
    assert shell(sandbox, BASE, "echo again").program.output == "again\n"
    sandbox.close()
    sandbox.reap(everything=True)
    eventually(lambda: not processes(f"sleep {mark}"))
    client = connect(base_url=host)
    assert client.containers(all=True) == []
    client.close()
    sandbox.close()


def test_an_engine_that_comes_back_in_time_is_waited_for(engine: PrivateEngine, host: str, tmp_path: Path) -> None:
    program = f"sleep 5.{uuid.uuid4().int % 10**7}"
    sandbox = sandbox_of(tmp_path, pause=BASE, patience=60)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(shell, sandbox, BASE, f"{program}; echo done")
        eventually(lambda: bool(processes(f"^{program}")))
        engine.kill()
        engine.start()
        assert future.result().program.output == "done\n"
    sandbox.close()
    client = connect(base_url=host)
    assert client.containers(all=True) == [], "the lost container and the lost network are removed as well"
    client.close()


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_an_engine_that_goes_and_comes_back_costs_a_build_nothing(
    engine: PrivateEngine, host: str, tmp_path: Path, how: str
) -> None:
    del host
    mark = f"4{uuid.uuid4().int % 10**8}"
    sandbox = sandbox_of(tmp_path)
    what = hostile(f"sleep {mark}; touch /done")
    with lost(engine, how, f"sleep {mark}") as lose, ThreadPoolExecutor(1) as pool:
        future = pool.submit(sandbox.build, what, subject=SUBJECT)
        lose()
        with pytest.raises(SandboxError) as caught:
            future.result()
    assert caught.value.transient
    assert not processes(f"sleep {mark}"), "what the engine left behind goes on for ever"
    with built(sandbox, hostile("echo again")) as image:
        assert shell(sandbox, image.image, "echo again").program.ok
    sandbox.close()


@contextlib.contextmanager
def lost(engine: PrivateEngine, how: str, program: str) -> Iterator[Callable[[], None]]:
    """Gives what takes the engine away once ``program`` runs; at the end of the block it is there again."""

    def lose() -> None:
        eventually(lambda: bool(processes(f"^{program}")))
        getattr(engine, how)()

    yield lose
    engine.start()
