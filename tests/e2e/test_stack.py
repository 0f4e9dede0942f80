"""The whole stack of docker-compose.yml, from images built here: it comes up, and one seed goes through it.

Skipped unless FACET_STACK_DEMO is set, since the image is built first: ``make stack-demo``. It needs a package index.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from facet_dagster.domain.ids import bucket_keys
from facet_dagster.setup.paths import Places, process_env
from facet_dagster.setup.stack import EMPTY, PASSWORD, make_secrets, of_this_host
from tests.fixtures.web_client import WebClient, free_port, wait_for

pytestmark = [
    pytest.mark.docker,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not os.environ.get("FACET_STACK_DEMO"), reason="builds images: run `make stack-demo`"),
]

ROOT = Path(__file__).resolve().parents[2]
SKILL_STAGES = ("skills", "skill_index", "scenario_hypotheses", "seed_candidates")
SEED_STAGES = (
    "seed",
    "scenario",
    "first_build",
    "environment",
    "task_draft",
    "first_validation",
    "task",
    "certificate",
)
KEY = "sk-marked-and-never-shown"


class Stack:
    """A project of docker compose with images, volumes, networks and secrets of its own."""

    def __init__(self, folder: Path) -> None:
        self.name = f"facettry{uuid.uuid4().hex[:8]}"
        self.web = WebClient(free_port())
        self.secrets = folder / "secrets" / "files"
        make_secrets(self.secrets)
        for name in EMPTY:
            (self.secrets / name).chmod(0o644)
            (self.secrets / name).write_text(KEY)
        self.images = (f"facet-dagster:{self.name}", f"facet-postgres:{self.name}")
        values = of_this_host(self.secrets) | {
            "STACK_IMAGE": self.images[0],
            "STACK_POSTGRES": self.images[1],
            "STACK_UI": f"127.0.0.1:{self.web.port}",
        }
        (folder / "env").write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        files = ("docker-compose.yml", "deploy/local/docker-compose.yml")
        self._base = ["docker", "compose", "-p", self.name, "--env-file", str(folder / "env")]
        self._base += [word for file in files for word in ("-f", str(ROOT / file))]

    def compose(self, *words: str) -> str:
        config = Places.from_env(process_env()).home / "docker-config"
        environment = {**os.environ, **({"DOCKER_CONFIG": str(config)} if config.is_dir() else {})}
        done = subprocess.run([*self._base, *words], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-5000:]
        return done.stdout

    def facet(self, *words: str) -> Any:
        """A command of the platform in a container of its own."""
        return json.loads(self.compose("run", "--rm", "-T", "cli", "facet", *words, "--json"))

    def containers(self) -> list[dict[str, Any]]:
        """As the engine tells of them, those of runs too."""
        client = docker.from_env()
        found = [c.attrs for c in client.containers.list(all=True) if self.name in json.dumps(c.attrs["Config"])]
        client.close()
        return found


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    if shutil.which("docker") is None:
        pytest.skip("there is no docker command")
    made = Stack(tmp_path_factory.mktemp("stack"))
    try:
        made.compose("build", "code")
        made.compose("build", "postgres")
        made.compose("up", "--detach", "--no-build", "--wait", "--wait-timeout", "600")
        yield made
    finally:
        made.compose("down", "--volumes", "--timeout", "30")
        client = docker.from_env()
        for image in reversed(made.images):
            client.images.remove(image)
        client.close()


@pytest.fixture(scope="module")
def seed(stack: Stack) -> str:
    """One seed of the demo's tape, carried through every stage by runs in containers of their own."""
    wait_for(stack.web.answers, 300)
    stack.facet("ingest", "/opt/facet/examples/skills")
    buckets = (bucket_keys()[0], bucket_keys()[-1])
    config = {"ops": {"seed_selection": {"config": {"batch": "demo", "count": 12}}}}
    for name in SKILL_STAGES:
        finish(stack, stack.web.launch(name, keys=buckets))
    finish(stack, stack.web.launch("seed_selection", config=config))
    key = str(stack.facet("seeds", "--batch", "demo")[0]["key"])
    for name in SEED_STAGES:
        finish(stack, stack.web.launch(name, keys=(key, key)))
    return key


def finish(stack: Stack, run_id: str) -> None:
    status, log = stack.web.finished(run_id), stack.web.log(run_id)
    assert status == "SUCCESS", log[-4000:]
    assert f"with image {stack.images[0]}" in log


def test_every_service_is_healthy_an_ordinary_user_and_without_capabilities(stack: Stack) -> None:
    found = {c["Config"]["Labels"]["com.docker.compose.service"]: c for c in stack.containers()}
    assert set(found) == {"webserver", "daemon", "code", "postgres"}
    for name, container in found.items():
        assert container["State"]["Health"]["Status"] == "healthy", name
        assert container["Config"]["User"] not in ("", "root", "0"), name
        assert container["HostConfig"]["CapDrop"] == ["ALL"], name
    ports = {name: c["HostConfig"]["PortBindings"] for name, c in found.items() if c["HostConfig"]["PortBindings"]}
    assert ports == {"webserver": {"3000/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(stack.web.port)}]}}


def test_one_seed_goes_through_the_stack(stack: Stack, seed: str) -> None:
    tasks = stack.facet("tasks", "--batch", "demo")
    assert [task["key"] for task in tasks] == [seed]
    assert tasks[0]["checks"] > 10


def test_no_password_stands_in_containers_run_tags_or_logs(stack: Stack, seed: str) -> None:
    secret = (stack.secrets / PASSWORD).read_text()
    text = json.dumps(stack.containers()) + stack.compose("logs", "--no-color")
    text += json.dumps(
        stack.web.query("{ runsOrError { ... on Runs { results { runId tags { key value } runConfigYaml } } } }")
    )
    shown = "cat /data/dagster/dagster.yaml; cat /proc/[0-9]*/cmdline; true"
    text += stack.compose("exec", "-T", "code", "sh", "-c", shown)
    assert stack.name in text
    for word in (secret, KEY):
        assert word not in text


def test_the_engine_keeps_what_the_funnel_relies_on_seen_from_a_container(stack: Stack) -> None:
    stack.compose("run", "--rm", "-T", "cli", "facet", "sandbox", "selfcheck")


def test_nothing_but_the_web_ui_answers_on_this_machine(stack: Stack) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{stack.web.port}/server_info", timeout=30) as answer:
        assert json.load(answer)["dagster_webserver_version"]
    internal = docker.from_env()
    network = internal.networks.get(f"{stack.name}_inside")
    assert network.attrs["Internal"]
    internal.close()
