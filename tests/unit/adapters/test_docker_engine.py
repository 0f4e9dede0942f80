from __future__ import annotations

import pytest
import requests
from docker.errors import APIError, DockerException

from facet_dagster.adapters.docker_engine import engine_errors
from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.errors import SandboxError


def api_error(status: int) -> APIError:
    response = requests.Response()
    response.status_code = status
    return APIError("failed", response=response, explanation="because")


@pytest.mark.parametrize(("status", "transient"), [(500, True), (503, True), (409, True), (400, False), (404, False)])
def test_the_status_decides_whether_the_same_call_may_succeed_later(status: int, transient: bool) -> None:
    with pytest.raises(SandboxError, match="Docker could not dance: because") as caught, engine_errors("dance"):
        raise api_error(status)
    assert caught.value.transient is transient


@pytest.mark.parametrize(
    "error", [requests.ConnectionError("x"), DockerException("x"), OSError("x"), TimeoutError("x")]
)
def test_no_answer_is_transient(error: Exception) -> None:
    with pytest.raises(SandboxError, match="no answer to: dance") as caught, engine_errors("dance"):
        raise error
    assert caught.value.transient


def test_other_errors_pass_unchanged() -> None:
    with pytest.raises(KeyError), engine_errors("dance"):
        raise KeyError("bug")


def test_a_missing_engine_is_one_sentence_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    with pytest.raises(SandboxError, match=r"No Docker Engine answers at .*127.0.0.1:1: .*make setup"):
        DockerSandbox().image("x")
