from __future__ import annotations

import pytest

from facet_dagster.adapters.memory_sandbox import Exec, MemorySandbox, ended
from facet_dagster.domain.archive import unpack
from facet_dagster.domain.trial import End, ExecResult, Limits, Reaped
from facet_dagster.errors import SandboxError, SessionOver
from facet_dagster.ports import BuildContext, BuildFailed, Built, Run

BASE = "python:3.11-slim-bookworm"


def context(extra: str = "", **files: bytes) -> BuildContext:
    paths = {f"app/{name}": data for name, data in files.items()}
    return BuildContext({"Dockerfile": f"FROM {BASE}\n{extra}".encode(), **paths}, frozenset({"app/run"}))


def image_of(sandbox: MemorySandbox, what: BuildContext) -> str:
    result = sandbox.build(what, subject="s")
    assert isinstance(result, Built)
    return result.image


def test_the_script_answers_and_what_was_asked_is_kept() -> None:
    sandbox = MemorySandbox(lambda run: ended(len(run.argv), "said", end=End.EXITED))
    run = Run(BASE, ("a", "b"), "s")
    assert (sandbox.run(run).program.exit_code, sandbox.runs) == (2, [run])


def test_without_a_script_programs_succeed_and_leave_nothing() -> None:
    outcome = MemorySandbox().run(Run(BASE, ("true",), "s", collect=("/app",)))
    assert (outcome.program.ok, outcome.collected) == (True, {"/app": None})


def test_a_dockerfile_with_a_scripted_text_fails_and_without_it_builds() -> None:
    failure = BuildFailed("RUN bad", 1, "log", 0.0)
    sandbox = MemorySandbox(failures={"bad": failure})
    assert sandbox.build(context("RUN bad\n"), subject="s") == failure
    assert isinstance(sandbox.build(context("RUN good\n"), subject="s"), Built)
    assert [subject for subject, _ in sandbox.builds] == ["s", "s"]


def test_files_of_the_context_and_of_the_root_are_read() -> None:
    sandbox = MemorySandbox(root={"/etc/passwd": b"root"})
    image = image_of(sandbox, context(a=b"1", run=b"2"))
    app, passwd = sandbox.read(image, "/app"), sandbox.read(image, "/etc/passwd")
    assert app is not None
    assert passwd is not None
    assert {name: member.mode for name, member in unpack(app).items()} == {
        "app": 0o755,
        "app/a": 0o644,
        "app/run": 0o755,
    }
    assert unpack(passwd)["passwd"].data == b"root"
    assert sandbox.reads == [(image, "/app"), (image, "/etc/passwd")]


def test_an_image_can_be_a_base() -> None:
    sandbox = MemorySandbox()
    first = image_of(sandbox, context(a=b"1"))
    second = sandbox.build(BuildContext({"Dockerfile": f"FROM {first}\n".encode()}), subject="s")
    assert isinstance(second, Built)


def test_a_removed_image_is_engine_trouble_for_a_run() -> None:
    sandbox = MemorySandbox()
    image = image_of(sandbox, context(a=b"1"))
    sandbox.remove_image(image)
    with pytest.raises(SandboxError, match="build it first"):
        sandbox.read(image, "/app", Limits())


def test_reaping_everything_leaves_the_bases() -> None:
    sandbox = MemorySandbox()
    image = image_of(sandbox, context(a=b"1"))
    assert sandbox.reap(images=True) == Reaped()
    assert sandbox.reap(images=True, everything=True).images == (image,)
    assert sandbox.image(BASE) is not None


def test_a_second_script_answers_each_program_of_a_session() -> None:
    def answer(asked: Exec) -> ExecResult:
        end = End.TIMEOUT if asked.argv == ("slow",) else End.EXITED
        return ended(len(asked.argv), asked.user, end=end).program

    sandbox = MemorySandbox(lambda run: ended(collected={"/app": b"tar"}), exec_script=answer)
    with sandbox.open(Run(BASE, ("sleep", "1"), "s")) as session:
        assert session.exec(["a", "b"], user="agent").output == "agent"
        assert session.exec(["slow"], seconds=1).end is End.TIMEOUT
        with pytest.raises(SessionOver):
            session.exec(["a"])
        assert (session.collect("/app"), session.collect("/absent")) == (b"tar", None)
    assert [asked.argv for asked in sandbox.execs] == [("a", "b"), ("slow",)]
