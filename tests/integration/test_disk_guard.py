"""What goes when the engine's disk gets short, on an engine with a small disk of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from facet_dagster.adapters.docker_disk import DiskLimits
from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.adapters.sandbox_contract import SUBJECT, context, shell
from facet_dagster.errors import SandboxError
from facet_dagster.ports import Built
from tests.fixtures.engines import BASE, PrivateEngine, private_engine

pytestmark = pytest.mark.docker
GIB = 1024**3
SIZE = 60  # MiB of one image


@pytest.fixture(scope="module")
def engine() -> Iterator[PrivateEngine]:
    with private_engine(1200) as made:
        yield made


@pytest.fixture
def free(engine: PrivateEngine, monkeypatch: pytest.MonkeyPatch) -> float:
    """GiB free on the engine's disk; sandboxes made from now on use that engine."""
    monkeypatch.setenv("DOCKER_HOST", engine.host)
    return shutil.disk_usage(engine.data_root).free / GIB


def build(sandbox: DockerSandbox) -> str:
    built = sandbox.build(context(BASE, f"head -c {SIZE}M /dev/urandom > /fill"), subject=SUBJECT)
    assert isinstance(built, Built), built
    return built.image


def test_images_go_oldest_first_and_never_a_held_one_or_the_base(free: float, tmp_path: Path) -> None:
    watermark = free - 3.5 * SIZE / 1024
    sandbox = DockerSandbox(
        slots_dir=tmp_path, build_network="none", disk=DiskLimits(watermark=watermark, floor=0, cache=0.01)
    )
    first = build(sandbox)
    with sandbox.hold(first) as there:
        assert there
        later = [build(sandbox) for _ in range(4)]
        assert sandbox.image(first) is not None, "it is in use"
        assert sandbox.image(BASE) is not None
        gone = [image for image in later if sandbox.image(image) is None]
        assert gone, "the disk was over the watermark"
        assert gone == later[: len(gone)], "oldest first"
        assert sandbox.image(later[-1]) is not None
    for image in (first, *later):
        sandbox.remove_image(image)
    sandbox.close()


def test_a_build_does_not_start_where_nothing_more_can_go(free: float, tmp_path: Path) -> None:
    sandbox = DockerSandbox(slots_dir=tmp_path, disk=DiskLimits(watermark=free + 1, floor=0))
    with pytest.raises(SandboxError, match="free some disk space there before building") as caught:
        build(sandbox)
    assert not caught.value.transient
    assert shell(sandbox, BASE, "true").program.ok, "what is built can still be judged"
    sandbox.close()


def test_the_build_cache_is_bounded(free: float, tmp_path: Path) -> None:
    del free
    sandbox = DockerSandbox(slots_dir=tmp_path, build_network="none", disk=DiskLimits(0, 0, cache=0.01))
    sandbox.remove_image(build(sandbox))
    (stamp,) = tmp_path.glob("*/cache-trimmed")
    stamp.unlink()  # ten minutes pass
    last = build(sandbox)
    repeated = sandbox.build(context(BASE), subject=SUBJECT)
    assert isinstance(repeated, Built)
    api = sandbox._engine.api
    cached = sum(entry["Size"] for entry in api.df()["BuildCache"] or () if not entry.get("Shared"))
    assert cached < 0.5 * SIZE * 2**20
    for image in (last, repeated.image):
        sandbox.remove_image(image)
    sandbox.close()
