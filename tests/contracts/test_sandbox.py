"""The sandbox contract on every adapter; the memory twin executes nothing and takes the build half."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.adapters.memory_sandbox import MemorySandbox
from facet_dagster.adapters.sandbox_contract import BUILD_CHECKS, Check
from facet_dagster.adapters.sandbox_contract_limits import FURTHER_BUILD_CHECKS, PAIR_CHECKS, PairCheck
from facet_dagster.adapters.sandbox_selfcheck import CHECKS, selfcheck

BASE = "python:3.11-slim-bookworm"


@pytest.fixture(scope="module")
def sandboxes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DockerSandbox, DockerSandbox]]:
    slots = tmp_path_factory.mktemp("slots")
    both = (DockerSandbox(pause_image=BASE, slots_dir=slots), DockerSandbox(pause_image=BASE, slots_dir=slots))
    yield both
    for sandbox in both:
        sandbox.close()
        assert not any(sandbox.counts(own=True).values()), "a check left something behind"


@pytest.mark.parametrize("check", BUILD_CHECKS + FURTHER_BUILD_CHECKS, ids=lambda c: c.__name__)
def test_memory(check: Check) -> None:
    check(MemorySandbox(bases=(BASE,)), BASE)


@pytest.mark.docker
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
def test_docker(check: Check, sandboxes: tuple[DockerSandbox, DockerSandbox]) -> None:
    check(sandboxes[0], BASE)


@pytest.mark.docker
@pytest.mark.parametrize("check", PAIR_CHECKS, ids=lambda c: c.__name__)
def test_docker_pair(check: PairCheck, sandboxes: tuple[DockerSandbox, DockerSandbox]) -> None:
    check(*sandboxes, BASE)


def test_a_broken_promise_is_told_and_the_others_are_still_checked() -> None:
    """The memory twin executes nothing, so it breaks what only an engine can keep."""
    found = {promise.name: promise for promise in selfcheck(MemorySandbox(bases=(BASE,)), MemorySandbox(), BASE)}
    assert len(found) == len(CHECKS) + len(PAIR_CHECKS)
    assert found["equal content is built once"].ok
    broken = found["an exit code is data"]
    assert not broken.ok
    assert "program.exit_code" in broken.broken, "the rule stands there as it was written"
