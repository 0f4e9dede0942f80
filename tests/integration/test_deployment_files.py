"""The files of a deployment hold together: compose, launcher, proxy, pins."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import Any

import docker
import pytest
import yaml
from dagster._config import process_config
from dagster_docker import DockerRunLauncher

from facet_dagster.setup import pin
from facet_dagster.setup.compose import compose_version
from facet_dagster.setup.paths import Places, process_env
from facet_dagster.setup.stack import PASSWORD, make_secrets, with_values
from tests.fixtures.web_client import free_port, wait_for

ROOT = Path(__file__).resolve().parents[2]
VALUES = {"STACK_SECRETS": "/nowhere/secrets", "STACK_GROUP": "998", "COMPOSE_PROJECT_NAME": "facet"}


def compose(*files: str, **values: str) -> subprocess.CompletedProcess[str]:
    config = Places.from_env(process_env()).home / "docker-config"
    folder = config if compose_version() is None and config.is_dir() else None
    if compose_version(folder) is None:
        pytest.skip("docker compose version 2 is not installed: `make test` installs it")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FACET_", "STACK_"))}
    environment = {**kept, **({"DOCKER_CONFIG": str(folder)} if folder else {}), **values}
    command = ["docker", "compose", "--env-file", os.devnull, *(w for f in files for w in ("-f", str(ROOT / f)))]
    return subprocess.run(
        [*command, "--profile", "tools", "config"], env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def stack() -> dict[str, Any]:
    done = compose("docker-compose.yml", **VALUES)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = yaml.safe_load(done.stdout)
    return found


def test_every_service_is_checked_and_hardened(stack: dict[str, Any]) -> None:
    services = stack["services"]
    assert set(services) == {"webserver", "daemon", "code", "cli", "postgres", "qdrant"}
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert name == "cli" or service["healthcheck"]["test"], name
        assert re.search(r":v?\d+\.\d+", service["image"]), name
    assert "USER facet" in (ROOT / "Dockerfile").read_text()


def test_only_the_web_ui_has_a_port_on_loopback_and_the_database_no_way_out(stack: dict[str, Any]) -> None:
    ports = {name: service["ports"] for name, service in stack["services"].items() if "ports" in service}
    assert [(port["host_ip"], port["target"]) for port in ports.pop("webserver")] == [("127.0.0.1", 3000)]
    assert ports == {}
    assert stack["networks"]["inside"]["internal"] is True
    for name in ("postgres", "qdrant", "code", "daemon"):
        assert set(stack["services"][name]["networks"]) == {"inside"}


def test_no_secret_is_in_the_configuration(stack: dict[str, Any]) -> None:
    for service in stack["services"].values():
        for name, value in (service.get("environment") or {}).items():
            assert not re.search(r"PASSWORD$|KEY$", name), name
            assert not re.search(r"://\w+:[^@/]+@", str(value)), name


def test_the_local_stack_has_no_qdrant() -> None:
    done = compose("docker-compose.yml", "deploy/local/docker-compose.yml", **VALUES)
    assert done.returncode == 0, done.stderr
    services = yaml.safe_load(done.stdout)["services"]
    assert set(services) == {"webserver", "daemon", "code", "cli", "postgres"}
    assert {s["environment"]["FACET_QDRANT_URL"] for n, s in services.items() if n != "postgres"} == {""}


def test_without_values_of_this_host_it_says_what_to_do() -> None:
    done = compose("docker-compose.yml")
    assert done.returncode != 0
    assert "make stack-env" in done.stderr


def test_runs_get_what_the_services_get(stack: dict[str, Any]) -> None:
    environment = stack["services"]["daemon"]["environment"]
    text = Template((ROOT / "deploy" / "docker.yaml").read_text()).substitute(environment, FACET_NAMES="[FACET_X]")
    config = yaml.safe_load(text)["run_launcher"]["config"]
    assert process_config(DockerRunLauncher.config_type(), config).success
    service, run = stack["services"]["daemon"], config["container_kwargs"]
    assert {v["target"] for v in service["volumes"]} == {v.split(":")[1] for v in run["volumes"]}
    assert (service["pid"], service["hostname"]) == (run["pid_mode"], run["hostname"])
    assert config["image"] == service["image"]
    assert config["networks"] == [stack["networks"][name]["name"] for name in ("inside", "outside")]


def test_settings_of_several_machines_name_what_they_need() -> None:
    documents = list(yaml.safe_load_all((ROOT / "deploy" / "k8s" / "facet.yaml").read_text()))
    settings = next(d["data"] for d in documents if d["kind"] == "ConfigMap")
    text = Template((ROOT / "deploy" / "k8s" / "dagster.yaml").read_text()).substitute(settings)
    config = yaml.safe_load(text)["run_launcher"]["config"]
    assert config["job_image"] == settings["FACET_STACK_IMAGE"]
    assert {v["name"] for v in config["volumes"]} == {v["name"] for v in config["volume_mounts"]}
    assert {d["metadata"]["name"] for d in documents if d["kind"] == "Deployment"} == {"code", "webserver", "daemon"}


def test_the_proxy_configuration_is_right(tmp_path: Path) -> None:
    nginx = shutil.which("nginx")
    if nginx is None:
        pytest.skip("nginx is not installed")
    key, certificate = tmp_path / "facet.key", tmp_path / "facet.crt"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=facet.example.org"]
    subprocess.run([*made, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    text = (ROOT / "deploy" / "nginx.conf").read_text().replace("/etc/nginx/", f"{tmp_path}/")
    whole = tmp_path / "nginx.conf"
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    own = "".join(f"{kind}_temp_path {tmp_path}/{kind};\n" for kind in kinds)
    head = f"pid {tmp_path}/pid; error_log {tmp_path}/log; events {{}}\n"
    whole.write_text(f"{head}http {{\naccess_log off;\n{own}{text}\n}}\n")
    done = subprocess.run([nginx, "-t", "-p", tmp_path, "-c", whole], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_digest_is_put_behind_a_version_and_replaced(tmp_path: Path) -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    once, found = pin.pinned(text, lambda image: f"sha256:{'1' * 64}")
    assert set(found) == {"python:3.11-slim-bookworm", "postgres:18.1", "qdrant/qdrant:v1.16.3-unprivileged"}
    assert f"image: postgres:18.1@sha256:{'1' * 64}\n" in once
    again, _ = pin.pinned(once, lambda image: f"sha256:{'2' * 64}")
    assert "1" * 64 not in again
    assert again.count("2" * 64) == 3


@pytest.mark.docker
def test_no_registry_leaves_the_file_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "docker-compose.yml"
    file.write_text("services: { a: { image: localhost:9/nothing:1.0 } }\n")
    assert pin.main(file) == 1
    assert file.read_text() == "services: { a: { image: localhost:9/nothing:1.0 } }\n"
    assert "is as it was: No digest of localhost:9/nothing:1.0" in capsys.readouterr().err


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """Debian's docker-registry on the loopback; gives its address."""
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("docker-registry is not installed")
    port = free_port()
    config = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(tmp_path / "registry")}},
        "http": {"addr": f"127.0.0.1:{port}"},
    }
    (tmp_path / "registry.yml").write_text(yaml.safe_dump(config))
    with (tmp_path / "registry.log").open("wb") as log:
        process = subprocess.Popen([program, "serve", tmp_path / "registry.yml"], stdout=log, stderr=log)
        try:
            wait_for(lambda: b"listening on" in (tmp_path / "registry.log").read_bytes(), 30)
            yield f"localhost:{port}"
        finally:
            process.terminate()
            process.wait(30)


@pytest.mark.docker
def test_the_digest_is_the_registrys(registry: str, tmp_path: Path) -> None:
    image = f"{registry}/facet-pin-{uuid.uuid4().hex[:8]}:1.0"
    client = docker.from_env()
    try:
        name, _, tag = image.rpartition(":")
        client.api.import_image_from_data(b"\0" * 1024, repository=name, tag=tag)
        assert "digest" in client.images.push(name, tag=tag)
        known = client.images.get(image).attrs["RepoDigests"][0].partition("@")[2]
        file = tmp_path / "docker-compose.yml"
        file.write_text(f"services: {{ a: {{ image: {image} }} }}\n")
        assert pin.main(file) == 0
        assert f"{image}@{known} }}" in file.read_text()
    finally:
        client.images.remove(image, force=True)
        client.close()


def test_secrets_are_made_once_behind_a_private_folder(tmp_path: Path) -> None:
    folder = tmp_path / "secrets" / "files"
    assert PASSWORD in make_secrets(folder)
    first = (folder / PASSWORD).read_text()
    assert len(first) > 20
    assert make_secrets(folder) == []
    assert (folder / PASSWORD).read_text() == first
    assert folder.parent.stat().st_mode & 0o777 == 0o700


def test_values_take_the_place_of_older_ones() -> None:
    text = with_values("FACET_MODEL=x\nSTACK_GROUP=1\nlast", {"STACK_GROUP": "2", "STACK_SECRETS": "/a"})
    assert text == "FACET_MODEL=x\nSTACK_GROUP=2\nlast\nSTACK_SECRETS=/a\n"
