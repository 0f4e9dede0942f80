"""Images for machines that build nothing: an OCI layout, and a registry on loopback, both pinned by digest."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import socket
import subprocess
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from facet_dagster.adapters.docker_engine import Engine
from facet_dagster.adapters.docker_publish import LayoutPublisher, RegistryPublisher
from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.errors import ConfigError, SandboxError
from facet_dagster.ports import Built
from facet_dagster.reports.exports.harbor import with_images
from facet_dagster.reports.exports.images import Sink, publishing
from facet_dagster.stages.task.contexts import Contexts
from facet_dagster.stages.task.package import Package, TaskLimits, build_package
from tests.fixtures import task_example as example

pytestmark = pytest.mark.docker
KEY = example.SEED.key
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


@pytest.fixture(scope="module")
def package() -> Package:
    return build_package(
        example.draft(),
        example.environment(),
        example.SCENARIO,
        example.SKILLS,
        e0_archive=example.E0_ARCHIVE,
        limits=TaskLimits.of(60),
    )


@pytest.fixture
def engine() -> Iterator[Engine]:
    found = Engine(1)
    yield found
    found.close()


def tags(engine: Engine) -> set[str]:
    return {
        name for image in engine.api.images() for name in (*(image["RepoTags"] or ()), *(image["RepoDigests"] or ()))
    }


def publish(package: Package, sink: Sink) -> Any:
    sandbox = DockerSandbox()
    try:
        with publishing(sandbox, sink) as put:
            return put(KEY, package.tar())
    finally:
        sandbox.close()


def test_a_layout_holds_what_its_references_pin(package: Package, engine: Engine, tmp_path: Path) -> None:
    layout = tmp_path / "oci"
    pinned = publish(package, LayoutPublisher(layout, "registry.example/facet", engine))
    index = json.loads((layout / "index.json").read_bytes())["manifests"]
    named = {one["annotations"]["org.opencontainers.image.ref.name"]: one["digest"] for one in index}
    assert named == {
        f"{KEY}-environment": pinned.environment.removeprefix("registry.example/facet@"),
        f"{KEY}-verifier": pinned.verifier.removeprefix("registry.example/facet@"),
    }
    for path in (layout / "blobs" / "sha256").iterdir():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
    for digest in named.values():
        manifest, config = whole(layout, digest)
        assert "facet." not in json.dumps(config), "labels say on which machine it was made"
        unpacked = [gzip.decompress(blob(layout, layer["digest"])) for layer in manifest["layers"]]
        assert [f"sha256:{hashlib.sha256(data).hexdigest()}" for data in unpacked] == config["rootfs"]["diff_ids"]
    assert not [path for path in layout.rglob(".*") if path.is_file()], "nothing half-written stays"


def blob(layout: Path, digest: str) -> bytes:
    return (layout / "blobs" / "sha256" / digest.removeprefix("sha256:")).read_bytes()


def whole(layout: Path, digest: str) -> tuple[dict[str, Any], dict[str, Any]]:
    manifest = json.loads(blob(layout, digest))
    return manifest, json.loads(blob(layout, manifest["config"]["digest"]))


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ConfigError, match="is no OCI layout"):
        LayoutPublisher(tmp_path, "r")


def test_the_task_names_both_images_and_states_the_verifiers_environment_whole(package: Package) -> None:
    from facet_dagster.reports.exports import Pinned

    text = package.files["task.toml"].decode()
    table = tomllib.loads(with_images(text, Pinned("r@sha256:1", "r@sha256:2")))
    before = tomllib.loads(text)
    assert table["environment"] == {**before["environment"], "docker_image": "r@sha256:1"}
    stated = table["verifier"]["environment"]
    assert (stated["docker_image"], stated["network_mode"]) == ("r@sha256:2", "no-network")
    assert "user" not in table["verifier"]


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """Debian's docker-registry on loopback."""
    program = shutil.which("docker-registry")
    if program is None:
        got = subprocess.run(["apt-get", "download", "docker-registry"], cwd=tmp_path, capture_output=True, check=False)
        archives = list(tmp_path.glob("docker-registry_*.deb"))
        if got.returncode or not archives:
            pytest.skip("Debian's docker-registry cannot be downloaded here")
        subprocess.run(["dpkg-deb", "-x", str(archives[0]), str(tmp_path / "deb")], check=True)
        program = str(tmp_path / "deb" / "usr" / "bin" / "docker-registry")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = tmp_path / "registry.yml"
    config.write_text(
        f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {tmp_path}/data}}}}\nhttp: {{addr: 127.0.0.1:{port}}}\n"
    )
    with subprocess.Popen([program, "serve", str(config)], stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(port)
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()


def wait_for(port: int) -> None:
    import time

    for _ in range(300):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/", timeout=5).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("the registry does not answer")


def test_a_registry_has_what_the_references_pin_and_nothing_stays_here(
    package: Package, engine: Engine, registry: str
) -> None:
    before = tags(engine)
    sandbox = DockerSandbox()
    context = Contexts.in_package(package).environment
    kept = sandbox.build(context, subject=KEY)  # an image that was there before stays, without another name
    assert isinstance(kept, Built)
    pinned = publish(package, RegistryPublisher(f"{registry}/facet", engine))
    for reference in pinned:
        digest = reference.removeprefix(f"{registry}/facet@")
        asked = urllib.request.Request(f"http://{registry}/v2/facet/manifests/{digest}", headers={"Accept": MANIFEST})
        with urllib.request.urlopen(asked, timeout=30) as answer:
            assert f"sha256:{hashlib.sha256(answer.read()).hexdigest()}" == digest
    assert {name for name in tags(engine) - before if registry in name} == set()
    assert sandbox.image(kept.image) is not None
    sandbox.remove_image(kept.image)
    sandbox.close()


def test_a_registry_that_does_not_answer_is_told(package: Package, engine: Engine) -> None:
    with pytest.raises(SandboxError, match="push"):
        publish(package, RegistryPublisher("127.0.0.1:1/facet", engine))
