"""`facet sandbox selfcheck`: the real command on the real engine, whole and with something missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import docker
import pytest

from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.adapters.sandbox_contract import SUBJECT, context
from facet_dagster.ports import Built

pytestmark = pytest.mark.docker
BASE = "python:3.11-slim-bookworm"
FACET = Path(sys.executable).with_name("facet")


def selfcheck(home: Path, *options: str, base: str = BASE) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "FACET_HOME": str(home), "FACET_BASE_IMAGE": base}
    argv = [str(FACET), "sandbox", "selfcheck", *options]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)


def test_this_engine_keeps_every_promise_and_nothing_is_left(tmp_path: Path) -> None:
    done = selfcheck(tmp_path, "--json")
    said = json.loads(done.stdout)
    assert [check for check in said["checks"] if not check["ok"]] == []
    assert {"equal content is built once", "reaping leaves what lives"} <= {check["name"] for check in said["checks"]}
    assert set(said["counts"]["left"].values()) == {0}
    client = docker.APIClient(version="auto", **docker.utils.kwargs_from_env())
    version = client.version()["Version"]
    client.close()
    assert said["engine"]["version"] == version
    assert said["engine"]["where"] == "local"
    assert said["engine"]["cgroup"] in ("1", "2")
    assert (done.returncode, said["ok"]) == (0, True)


def test_a_broken_promise_is_shown_with_its_rule_and_exit_code_1(tmp_path: Path) -> None:
    sandbox = DockerSandbox()
    base = sandbox.build(context(BASE, "rm /usr/bin/tail"), subject=SUBJECT)
    assert isinstance(base, Built)
    done = selfcheck(tmp_path, base=base.image)
    sandbox.remove_image(base.image)
    sandbox.close()
    lines = {line[7:].partition(" (")[0]: line for line in done.stdout.splitlines() if line[6:7] == " "}
    assert lines["an exit code is data"].startswith("ok ")
    assert lines["too much memory is told"].startswith("FAILED ")
    assert "exit code 127" in lines["too much memory is told"]
    assert "Left behind: nothing." in done.stdout
    assert done.returncode == 1


def test_a_missing_base_image_is_one_sentence(tmp_path: Path) -> None:
    done = selfcheck(tmp_path, base="no-such-base:1")
    assert done.returncode == 1
    assert done.stderr == "facet: The base image no-such-base:1 is not on the engine: run `make setup`\n"
