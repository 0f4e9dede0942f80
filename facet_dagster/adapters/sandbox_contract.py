"""What every Sandbox must do, as small checks that take a sandbox and the name of a base image.

The tests run them on each adapter; anybody may run them on their own engine. A check raises AssertionError
with the broken rule, leaves no image behind, and needs ``sh`` and ``sleep`` in the base image.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from facet_dagster.domain.archive import pack, unpack
from facet_dagster.domain.trial import End, Limits
from facet_dagster.errors import SandboxError, SessionOver
from facet_dagster.ports import BuildContext, BuildFailed, Built, Put, Run, RunOutcome, Sandbox, Session

Check = Callable[[Sandbox, str], None]
SUBJECT = "contract"
_ABSENT = "facet-contract-no-such-image:1"
SHORT = Limits(seconds=30, memory=128 * 1024 * 1024, disk=32 * 1024 * 1024, pids=64)


def context(base: str, *steps: str, files: dict[str, bytes] | None = None) -> BuildContext:
    """A context that copies ``app/`` to /app and then runs ``steps``; unique unless ``files`` are given."""
    content = files if files is not None else {"app/unique": uuid.uuid4().hex.encode()}
    lines = [f"FROM {base}", "COPY app/ /app/", *(f"RUN {step}" for step in steps)]
    return BuildContext({"Dockerfile": "\n".join(lines).encode() + b"\n", **content})


def shell(sandbox: Sandbox, image: str, script: str, *, limits: Limits = SHORT, user: str = "root") -> RunOutcome:
    run = Run(image=image, argv=("sh", "-c", script), subject=SUBJECT, limits=limits, user=user)
    return sandbox.run(run)


@contextmanager
def built(sandbox: Sandbox, what: BuildContext) -> Iterator[Built]:
    result = sandbox.build(what, subject=SUBJECT)
    assert isinstance(result, Built), f"a correct build failed: {result}"
    try:
        yield result
    finally:
        sandbox.remove_image(result.image)


def equal_content_is_built_once(sandbox: Sandbox, base: str) -> None:
    what = context(base)
    with built(sandbox, what) as first:
        second = sandbox.build(what, subject="another subject")
        assert isinstance(second, Built)
        assert (first.reused, second.reused, first.image) == (False, True, second.image)


def other_content_is_another_image(sandbox: Sandbox, base: str) -> None:
    with built(sandbox, context(base)) as first, built(sandbox, context(base)) as second:
        assert first.image != second.image


def a_missing_base_is_named(sandbox: Sandbox, base: str) -> None:
    failed = sandbox.build(context(_ABSENT), subject=SUBJECT)
    assert isinstance(failed, BuildFailed)
    assert _ABSENT in failed.step
    assert base in failed.log_tail, "the base images that are there are listed"


def an_unsafe_path_in_a_context_fails_the_build(sandbox: Sandbox, base: str) -> None:
    failed = sandbox.build(context(base, files={"../evil": b"", "app/x": b""}), subject=SUBJECT)
    assert isinstance(failed, BuildFailed)
    assert "../evil" in failed.log_tail


def an_image_is_described(sandbox: Sandbox, base: str) -> None:
    info = sandbox.image(base)
    assert info is not None
    assert info.id.startswith("sha256:")
    assert "PATH" in info.env


def an_image_that_is_not_there_is_none(sandbox: Sandbox, base: str) -> None:
    del base
    assert sandbox.image(_ABSENT) is None


def removing_an_image_twice_is_allowed(sandbox: Sandbox, base: str) -> None:
    with built(sandbox, context(base)) as image:
        sandbox.remove_image(image.image)
        assert sandbox.image(image.image) is None


def an_image_that_is_held_is_not_removed(sandbox: Sandbox, base: str) -> None:
    with built(sandbox, context(base)) as image:
        with sandbox.hold(image.image) as there, sandbox.hold(image.image) as twice:
            sandbox.remove_image(image.image)
            assert there
            assert twice
            assert sandbox.image(image.image) is not None
        sandbox.remove_image(image.image)
        assert sandbox.image(image.image) is None
        with sandbox.hold(image.image) as there:
            assert not there


def files_of_an_image_can_be_read(sandbox: Sandbox, base: str) -> None:
    with built(sandbox, context(base, files={"app/d/a.txt": b"one", "app/b": b"\x00\xff"})) as image:
        archive = sandbox.read(image.image, "/app")
        assert archive is not None
        found = unpack(archive)
        assert (found["app/d/a.txt"].data, found["app/b"].data) == (b"one", b"\x00\xff")
        nested = sandbox.read(image.image, "/app/d")
        assert nested is not None
        assert set(unpack(nested)) == {"d", "d/a.txt"}, "names are relative to the path's parent"


def reading_what_is_not_there_gives_none(sandbox: Sandbox, base: str) -> None:
    assert sandbox.read(base, "/no/such/path") is None


def an_unknown_image_is_engine_trouble(sandbox: Sandbox, base: str) -> None:
    del base
    try:
        shell(sandbox, _ABSENT, "true")
    except SandboxError as error:
        transient = error.transient
    else:
        raise AssertionError("a run of an image that is not there must raise SandboxError")
    assert not transient, "the image will not appear by waiting"


def a_failing_step_is_told_with_its_code_and_log(sandbox: Sandbox, base: str) -> None:
    failed = sandbox.build(context(base, "echo to-stdout; echo to-stderr >&2; exit 7"), subject=SUBJECT)
    assert isinstance(failed, BuildFailed)
    assert failed.exit_code == 7
    assert "exit 7" in failed.step
    assert "to-stdout" in failed.log_tail
    assert "to-stderr" in failed.log_tail


def an_exit_code_is_data(sandbox: Sandbox, base: str) -> None:
    program = shell(sandbox, base, "echo out; echo err >&2; exit 3").program
    assert (program.end, program.exit_code) == (End.EXITED, 3)
    assert sorted(program.output.split()) == ["err", "out"]


def a_program_that_is_not_there_is_data(sandbox: Sandbox, base: str) -> None:
    program = sandbox.run(Run(image=base, argv=("/no/such/program",), subject=SUBJECT)).program
    assert program.end is End.EXITED
    assert program.exit_code in (126, 127)


def files_go_in_and_come_out(sandbox: Sandbox, base: str) -> None:
    outcome = sandbox.run(
        Run(
            image=base,
            argv=("sh", "/in/script.sh"),
            subject=SUBJECT,
            put=(
                Put("/in", pack({"script.sh": b"mkdir -p /out/d && cat /in/data > /out/d/copy", "data": b"\xff\x00"})),
            ),
            collect=("/out", "/absent"),
            limits=SHORT,
        )
    )
    archive = outcome.collected["/out"]
    assert outcome.program.ok
    assert archive is not None
    assert unpack(archive)["out/d/copy"].data == b"\xff\x00"
    assert outcome.collected["/absent"] is None


def time_over_ends_the_whole_process_tree(sandbox: Sandbox, base: str) -> None:
    program = shell(sandbox, base, "setsid sleep 300 & sleep 300", limits=Limits(seconds=1)).program
    assert program.end is End.TIMEOUT


def the_network_ends_at_the_loopback(sandbox: Sandbox, base: str) -> None:
    program = shell(sandbox, base, "tail -n +3 /proc/net/dev | cut -d: -f1 | grep -v '^ *lo$'").program
    assert program.exit_code == 1, f"other network devices: {program.output}"


def nothing_stays_from_one_run_to_the_next(sandbox: Sandbox, base: str) -> None:
    assert shell(sandbox, base, "echo x > /left-behind").program.ok
    assert not shell(sandbox, base, "test -e /left-behind").program.ok


def session(
    sandbox: Sandbox, base: str, *, limits: Limits = SHORT, put: tuple[Put, ...] = ()
) -> AbstractContextManager[Session]:
    return sandbox.open(Run(image=base, argv=("sleep", "300"), subject=SUBJECT, limits=limits, put=put))


def programs_of_one_session_see_each_other(sandbox: Sandbox, base: str) -> None:
    with session(sandbox, base, put=(Put("/in", pack({"data": b"given"})),)) as opened:
        started = opened.exec(["sh", "-c", "cat /in/data; mkdir /out; sleep 200 >/dev/null 2>&1 & echo $! > /pid"])
        assert started.output == "given"
        assert opened.exec(["sh", "-c", "kill -0 $(cat /pid) && echo kept > /out/f"]).ok, "what was started runs on"
        archive = opened.collect("/out")
        assert archive is not None
        assert unpack(archive)["out/f"].data == b"kept\n"
        assert opened.collect("/absent") is None


def user_folder_and_variables_of_an_exec_are_obeyed(sandbox: Sandbox, base: str) -> None:
    with session(sandbox, base) as opened:
        done = opened.exec(["sh", "-c", "id -u; pwd; echo $A"], user="65534", workdir="/usr", env={"A": "b"})
        assert done.output.split() == ["65534", "/usr", "b"]
        assert opened.exec(["sh", "-c", "id -u; pwd"]).output.split() == ["0", "/"]


def how_an_exec_ends_is_data(sandbox: Sandbox, base: str) -> None:
    with session(sandbox, base) as opened:
        failed = opened.exec(["sh", "-c", "echo out; echo err >&2; exit 3"])
        assert (failed.end, failed.exit_code) == (End.EXITED, 3)
        assert sorted(failed.output.split()) == ["err", "out"]
        assert opened.exec(["/no/such/program"]).exit_code in (126, 127)
        assert opened.exec(["true"], workdir="/no/such/folder").exit_code in (126, 127)
        assert opened.exec(["sh", "-c", "kill -KILL $$"]).exit_code == 137
        assert opened.exec(["true"]).ok


def an_exec_over_its_time_ends_the_session(sandbox: Sandbox, base: str) -> None:
    with session(sandbox, base) as opened:
        opened.exec(["sh", "-c", "echo before > /kept"])
        assert opened.exec(["sh", "-c", "setsid sleep 300 & sleep 300"], seconds=0.5).end is End.TIMEOUT
        assert _refuses(opened)
        assert opened.collect("/kept"), "what was written can still be read"


def a_session_over_its_time_ends(sandbox: Sandbox, base: str) -> None:
    with session(sandbox, base, limits=Limits(seconds=1.5)) as opened:
        assert opened.exec(["sleep", "300"]).end is End.TIMEOUT
        assert _refuses(opened)


def a_session_of_a_program_that_is_not_there_does_not_open(sandbox: Sandbox, base: str) -> None:
    try:
        with sandbox.open(Run(image=base, argv=("/no/such/program",), subject=SUBJECT)):
            raise AssertionError("the session opened")
    except SandboxError as error:
        transient = error.transient
    assert not transient, "the program will not appear by waiting"


def the_network_of_a_session_ends_at_the_loopback(sandbox: Sandbox, base: str) -> None:
    with session(sandbox, base) as opened:
        done = opened.exec(["sh", "-c", "tail -n +3 /proc/net/dev | cut -d: -f1 | grep -v '^ *lo$'"])
        assert done.exit_code == 1, f"other network devices: {done.output}"


def _refuses(opened: Session) -> bool:
    try:
        opened.exec(["true"])
    except SessionOver:
        return True
    return False


# What a sandbox can do without executing anything.
BUILD_CHECKS: tuple[Check, ...] = (
    equal_content_is_built_once,
    other_content_is_another_image,
    a_missing_base_is_named,
    an_unsafe_path_in_a_context_fails_the_build,
    an_image_is_described,
    an_image_that_is_not_there_is_none,
    an_image_that_is_held_is_not_removed,
    removing_an_image_twice_is_allowed,
    files_of_an_image_can_be_read,
    reading_what_is_not_there_gives_none,
    an_unknown_image_is_engine_trouble,
)
RUN_CHECKS: tuple[Check, ...] = (
    a_failing_step_is_told_with_its_code_and_log,
    an_exit_code_is_data,
    a_program_that_is_not_there_is_data,
    files_go_in_and_come_out,
    time_over_ends_the_whole_process_tree,
    the_network_ends_at_the_loopback,
    nothing_stays_from_one_run_to_the_next,
)
SESSION_CHECKS: tuple[Check, ...] = (
    programs_of_one_session_see_each_other,
    user_folder_and_variables_of_an_exec_are_obeyed,
    how_an_exec_ends_is_data,
    an_exec_over_its_time_ends_the_session,
    a_session_over_its_time_ends,
    a_session_of_a_program_that_is_not_there_does_not_open,
    the_network_of_a_session_ends_at_the_loopback,
)
