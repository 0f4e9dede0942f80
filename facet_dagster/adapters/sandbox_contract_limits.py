"""The rest of the sandbox contract: limits, hostile input, and two sandboxes beside each other."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable

from facet_dagster.adapters.sandbox_contract import SHORT, SUBJECT, Check, built, context, shell
from facet_dagster.domain.archive import Member, pack_members, unpack
from facet_dagster.domain.trial import End, ExecResult, Limits
from facet_dagster.errors import SandboxError
from facet_dagster.ports import Built, Put, Run, Sandbox

PairCheck = Callable[[Sandbox, Sandbox, str], None]
_MIB = 1024 * 1024
_NOBODY = "65534:65534"


def limits(**changed: float) -> Limits:
    return SHORT.model_copy(update=changed)


def subject_and_attempt_become_labels(sandbox: Sandbox, base: str) -> None:
    subject, attempt = f"contract-{uuid.uuid4().hex[:8]}", 7
    result = sandbox.build(context(base), subject=subject, attempt=attempt)
    assert isinstance(result, Built)
    info = sandbox.image(result.image)
    sandbox.remove_image(result.image)
    assert info is not None
    assert {subject, str(attempt)} <= set(info.labels.values()), f"labels of the image: {dict(info.labels)}"


def reading_over_the_limits_is_engine_trouble(sandbox: Sandbox, base: str) -> None:
    with built(sandbox, context(base, files={"app/big": bytes(_MIB)})) as image:
        said = _trouble(lambda: sandbox.read(image.image, "/app", limits(archive=1000)))
        assert said, "an archive over the limits must raise SandboxError"


def user_folder_and_variables_are_as_asked(sandbox: Sandbox, base: str) -> None:
    argv = ("sh", "-c", 'echo "$(id -u):$(id -g) $(pwd) $ASKED"')
    run = Run(base, argv, SUBJECT, user="1234:2345", workdir="/tmp", env={"ASKED": "a b=c"}, limits=SHORT)  # noqa: S108
    assert sandbox.run(run).program.output.split("\n")[0] == "1234:2345 /tmp a b=c"


def an_image_without_the_user_is_data(sandbox: Sandbox, base: str) -> None:
    program = sandbox.run(Run(base, ("true",), SUBJECT, user="no-such-user", limits=SHORT)).program
    assert (program.end, program.exit_code) == (End.EXITED, 126)
    assert program.output, "the engine's words say what is missing"


def an_image_without_the_folder_is_data(sandbox: Sandbox, base: str) -> None:
    program = sandbox.run(Run(base, ("true",), SUBJECT, workdir="/etc/passwd", limits=SHORT)).program
    assert (program.end, program.exit_code) == (End.EXITED, 126)


def an_archive_cannot_leave_its_target(sandbox: Sandbox, base: str) -> None:
    put = Put("/in", pack_members({"../escape": Member("file")}))
    said = _trouble(lambda: sandbox.run(Run(base, ("true",), SUBJECT, put=(put,), limits=SHORT)))
    assert said, "a name that leaves the target must raise SandboxError"


def long_output_keeps_its_end(sandbox: Sandbox, base: str) -> None:
    script = "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; echo the end"
    output = shell(sandbox, base, script, limits=limits(output=1000)).program.output
    assert output.endswith("the end\n"), f"the end is lost: {output[-100:]!r}"
    assert len(output) < 1100


def too_much_memory_is_told(sandbox: Sandbox, base: str) -> None:
    program = shell(sandbox, base, "exec tail /dev/zero", limits=limits(memory=32 * _MIB)).program
    assert program.end is End.OOM, _told(program)


def too_many_processes_are_refused(sandbox: Sandbox, base: str) -> None:
    script = "i=0; while [ $i -lt 100 ]; do sleep 30 & i=$((i+1)); done; echo all of them"
    program = shell(sandbox, base, script, limits=limits(pids=20)).program
    assert program.end is End.EXITED
    assert "all of them" not in program.output
    assert program.exit_code != 0, _told(program)


def a_file_over_the_disk_limit_is_told(sandbox: Sandbox, base: str) -> None:
    program = shell(sandbox, base, "exec head -c 64m /dev/zero > /big", limits=limits(disk=8 * _MIB)).program
    assert program.end is End.DISK, _told(program)


def too_much_to_collect_is_told(sandbox: Sandbox, base: str) -> None:
    argv = ("sh", "-c", "mkdir /out && head -c 2m /dev/zero > /out/big")
    outcome = sandbox.run(Run(base, argv, SUBJECT, collect=("/out",), limits=limits(archive=_MIB)))
    assert outcome.program.end is End.DISK, _told(outcome.program)
    assert outcome.collected == {"/out": None}


def too_many_files_to_collect_are_told(sandbox: Sandbox, base: str) -> None:
    argv = ("sh", "-c", "mkdir /out && cd /out && i=0; while [ $i -lt 60 ]; do : > $i; i=$((i+1)); done")
    outcome = sandbox.run(Run(base, argv, SUBJECT, collect=("/out",), limits=limits(entries=50)))
    assert outcome.program.end is End.DISK, _told(outcome.program)
    assert outcome.collected == {"/out": None}


def an_outbox_is_empty_and_open_to_everybody(sandbox: Sandbox, base: str) -> None:
    argv = ("sh", "-c", "ls -A /outbox/deep && mkdir /outbox/deep/d && echo mine > /outbox/deep/d/file")
    run = Run(base, argv, SUBJECT, user=_NOBODY, outbox=("/outbox/deep",), limits=SHORT)
    outcome = sandbox.run(run)
    assert outcome.program.ok, _told(outcome.program)
    assert outcome.program.output == "", f"the folder was not empty: {outcome.program.output!r}"
    archive = outcome.collected["/outbox/deep"]
    assert archive is not None
    assert unpack(archive)["deep/d/file"].data == b"mine\n"


def an_image_that_another_holds_is_not_removed(first: Sandbox, second: Sandbox, base: str) -> None:
    with built(first, context(base)) as image:
        with first.hold(image.image):
            second.remove_image(image.image)
            assert first.image(image.image) is not None, "the other sandbox removed what was held"
        second.remove_image(image.image)
        assert first.image(image.image) is None


def equal_content_of_two_is_built_once(first: Sandbox, second: Sandbox, base: str) -> None:
    what = context(base)
    results = []
    builds = [
        threading.Thread(target=lambda s=s: results.append(s.build(what, subject=SUBJECT))) for s in (first, second)
    ]
    for thread in builds:
        thread.start()
    for thread in builds:
        thread.join()
    first.remove_image(next(r.image for r in results if isinstance(r, Built)))
    assert sorted(r.reused for r in results if isinstance(r, Built)) == [False, True]


def reaping_leaves_what_lives(first: Sandbox, second: Sandbox, base: str) -> None:
    with built(first, context(base)) as image, first.open(_stay(image.image)) as session:
        second.reap()
        assert session.exec(("true",)).ok, "a session of a living process was reaped"
        assert first.image(image.image) is not None


def _stay(image: str) -> Run:
    return Run(image, ("sleep", "300"), SUBJECT, limits=SHORT)


def _trouble(call: Callable[[], object]) -> str:
    """The words of the SandboxError that ``call`` raises, or nothing."""
    try:
        call()
    except SandboxError as error:
        return str(error) or type(error).__name__
    return ""


def _told(program: ExecResult) -> str:
    return f"it ended as {program.end}, exit code {program.exit_code}: {program.output[-300:]}"


LIMIT_CHECKS: tuple[Check, ...] = (
    user_folder_and_variables_are_as_asked,
    an_image_without_the_user_is_data,
    an_image_without_the_folder_is_data,
    an_archive_cannot_leave_its_target,
    long_output_keeps_its_end,
    too_much_memory_is_told,
    too_many_processes_are_refused,
    a_file_over_the_disk_limit_is_told,
    too_much_to_collect_is_told,
    too_many_files_to_collect_are_told,
    an_outbox_is_empty_and_open_to_everybody,
)
# What a sandbox can do without executing anything, like BUILD_CHECKS.
FURTHER_BUILD_CHECKS: tuple[Check, ...] = (
    subject_and_attempt_become_labels,
    reading_over_the_limits_is_engine_trouble,
)
PAIR_CHECKS: tuple[PairCheck, ...] = (
    an_image_that_another_holds_is_not_removed,
    equal_content_of_two_is_built_once,
    reaping_leaves_what_lives,
)
