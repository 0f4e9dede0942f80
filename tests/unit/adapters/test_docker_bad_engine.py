"""DockerSandbox on an engine that answers wrongly: trouble of the machine, never a verdict."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.domain.trial import Limits
from facet_dagster.errors import SandboxError
from facet_dagster.ports import BuildContext, Run
from tests.fixtures.fake_engine import FakeEngine, fake_engine

RUN = Run("image", ("true",), "s", limits=Limits(seconds=5))
BROKEN = (500, {"message": "something broke"})
BUSY = (409, {"message": "removal of container c0ffee is already in progress"})
REMOVE = "DELETE /containers/c0ffee"


@contextmanager
def sandbox_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: dict[str, list[tuple[int, Any]]]
) -> Iterator[tuple[DockerSandbox, FakeEngine]]:
    with fake_engine(tmp_path, answers) as (engine, host):
        monkeypatch.setenv("DOCKER_HOST", host)
        sandbox = DockerSandbox(slots_dir=tmp_path / "slots", patience=0.1)
        yield sandbox, engine
        sandbox.close()


def test_all_is_well_with_the_answers_of_a_sound_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with sandbox_on(tmp_path, monkeypatch, {}) as (sandbox, engine):
        assert sandbox.run(RUN).program.ok
        assert engine.asked[-1] == REMOVE


def test_a_removal_that_somebody_else_began_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = (404, {"message": "No such container: c0ffee"})
    with sandbox_on(tmp_path, monkeypatch, {REMOVE: [BUSY, BUSY, gone]}) as (sandbox, engine):
        assert sandbox.run(RUN).program.ok
        assert engine.asked.count(REMOVE) == 3


@pytest.mark.parametrize("call", ["POST /containers/create", "POST /containers/c0ffee/start"])
def test_a_call_before_the_program_ran_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    good = (201, {"Id": "c0ffee"}) if call.endswith("create") else (204, None)
    with sandbox_on(tmp_path, monkeypatch, {call: [BROKEN, good]}) as (sandbox, engine):
        assert sandbox.run(RUN).program.ok
        assert engine.asked.count(call) == 2
        assert engine.asked.count("POST /containers/c0ffee/wait") == 1


@pytest.mark.parametrize(
    "answers",
    [
        {"POST /containers/c0ffee/wait": [BROKEN]},
        {"GET /containers/c0ffee/logs": [BROKEN]},
        {"GET /containers/c0ffee/json": [BROKEN]},
        {"GET /containers/c0ffee/json": [(200, {"SizeRw": 0, "State": {"Status": "dead", "ExitCode": 0}})]},
        {"GET /containers/c0ffee/json": [(200, {"State": {"Status": "running", "ExitCode": 0}})]},
        {"GET /containers/c0ffee/json": [(200, {"State": {"Status": "exited", "ExitCode": None}})]},
        {"POST /containers/create": [BROKEN]},
        {"GET /version": [BROKEN]},
    ],
    ids=["wait", "logs", "inspect", "dead", "running", "no exit code", "create", "version"],
)
def test_an_engine_that_fails_gives_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: dict[str, list[tuple[int, Any]]]
) -> None:
    with sandbox_on(tmp_path, monkeypatch, answers) as (sandbox, engine):
        with pytest.raises(SandboxError):
            sandbox.run(RUN)
        assert engine.asked.count("POST /containers/c0ffee/wait") <= 3, "the tries are bounded"
        assert (REMOVE in engine.asked) == ("POST /containers/c0ffee/start" in engine.asked)


@pytest.mark.parametrize(
    "said",
    [b"", b'{"stream":"half a li', b"<html>a proxy</html>\n", b'{"stream":"all is well\\n"}\n'],
    ids=["nothing", "half a line", "no JSON", "no image"],
)
def test_a_build_of_which_the_engine_tells_nothing_is_no_failed_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    context = BuildContext({"Dockerfile": b"FROM scratch\nCOPY x /x\n", "x": b""})
    answers = {"POST /build": [(200, said)]}
    with sandbox_on(tmp_path, monkeypatch, answers) as (sandbox, engine):
        engine.absent = "GET /images/facet-task:"
        with pytest.raises(SandboxError) as caught:
            sandbox.build(context, subject="s")
    assert caught.value.transient
