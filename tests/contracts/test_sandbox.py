"""The sandbox contract on every adapter; the memory twin executes nothing and takes the build half."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.adapters.memory_sandbox import MemorySandbox
from facet_dagster.adapters.sandbox_contract import BUILD_CHECKS, RUN_CHECKS, SESSION_CHECKS, Check

BASE = "python:3.11-slim-bookworm"


@pytest.fixture(scope="module")
def docker_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerSandbox]:
    sandbox = DockerSandbox(pause_image=BASE, slots_dir=tmp_path_factory.mktemp("slots"))
    yield sandbox
    sandbox.close()


@pytest.mark.parametrize("check", BUILD_CHECKS, ids=lambda c: c.__name__)
def test_memory(check: Check) -> None:
    check(MemorySandbox(bases=(BASE,)), BASE)


@pytest.mark.docker
@pytest.mark.parametrize("check", BUILD_CHECKS + RUN_CHECKS + SESSION_CHECKS, ids=lambda c: c.__name__)
def test_docker(check: Check, docker_sandbox: DockerSandbox) -> None:
    check(docker_sandbox, BASE)
