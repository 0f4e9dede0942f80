"""The work in a task with services: in a session, between their start and the commands that look at their state."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from facet_dagster.domain.archive import Member, pack_members, subtree
from facet_dagster.domain.environment import WORKDIR, Service
from facet_dagster.domain.services import ENTRYPOINT, start_seconds
from facet_dagster.domain.task import CollectCommand
from facet_dagster.domain.trial import End, ExecResult
from facet_dagster.errors import OverLimits, SessionOver
from facet_dagster.ports import Put, Run, Sandbox, Session

ARTIFACTS = "/logs/artifacts"
# Until here the folder is open to everybody, as Harbor makes it; from here on root alone says what is in it. What
# stands there is moved away and not deleted: in a folder of its own the work could keep on writing.
CLAIM = CollectCommand(
    command=f"chown root:root {ARTIFACTS} && chmod 0755 {ARTIFACTS} && "
    f'find {ARTIFACTS} -mindepth 1 -maxdepth 1 -exec mv -t "$(mktemp -d)" {{}} +'
)
# The kill spares its own process, which then ends with the container and not before.
_STOP = ("sh", "-c", "kill -KILL -1; exec sleep 60")
_MARGIN = 120.0
_KILLED = 137


@dataclass(frozen=True)
class LiveWork:
    """How the services came up, what the work did, how each collect command ended, and what is left of it.

    ``program`` is None when the services did not come up. Archives are None where there is nothing.
    """

    services: ExecResult
    program: ExecResult | None
    collected: tuple[ExecResult, ...]
    app: bytes | None
    artifacts: bytes | None


def collect_commands(collect: Sequence[CollectCommand]) -> tuple[CollectCommand, ...]:
    """What is run and shipped: the folder is claimed before anything is written into it."""
    return (CLAIM, *collect) if collect else ()


def work(run: Run, services: Sequence[Service], collect: Sequence[CollectCommand], sandbox: Sandbox) -> LiveWork:
    """Do ``run``, the work of a task without services, while its services run. Raises SandboxError.

    Whatever ends the container early (time, memory, disk) is data, and what was written until then is read.
    """
    seconds = start_seconds(services) + run.limits.seconds + sum(c.seconds for c in collect) + _MARGIN
    with sandbox.open(beside(run, seconds)) as session:
        up = start(session, services)
        program, done = None, []
        if up.ok:
            try:
                program = session.exec(
                    run.argv, user=run.user, workdir=run.workdir, env=run.env, seconds=run.limits.seconds
                )
            except SessionOver as error:
                up = up.model_copy(update={"exit_code": _KILLED, "output": f"The services ended it all: {error}"})
            done = _look(session, collect_commands(collect))
        with contextlib.suppress(SessionOver):
            # So that nobody writes into what is read. Root may end its main program, and with it all.
            session.exec(_STOP, seconds=10)
        try:
            return LiveWork(up, program, tuple(done), session.collect(WORKDIR), session.collect(ARTIFACTS))
        except OverLimits as error:
            return LiveWork(up, _over(program or up, error), tuple(done), None, None)


def inside(artifacts: bytes) -> bytes:
    """What was collected, as it goes below /logs/artifacts of another container."""
    return subtree(artifacts, "artifacts")


def beside(run: Run, seconds: float) -> Run:
    """The container in which services run beside the work of ``run``, for ``seconds`` at most."""
    return replace(
        run,
        argv=("sleep", "infinity"),
        user="root",
        workdir="/",
        env={},
        put=(*run.put, Put("/", _open_folder())),
        collect=(),
        limits=run.limits.model_copy(update={"seconds": seconds}),
    )


def start(session: Session, services: Sequence[Service]) -> ExecResult:
    """Bring the services up; it ends when all of them are healthy. Raises SandboxError."""
    return session.exec((ENTRYPOINT, "true"), seconds=start_seconds(services))


def _over(program: ExecResult, error: OverLimits) -> ExecResult:
    return program.model_copy(update={"end": End.DISK, "output": f"{program.output}\n[{error}]"})


def _look(session: Session, commands: Sequence[CollectCommand]) -> list[ExecResult]:
    """A command that fails leaves its traces to the verifier; one that ends the container ends the looking."""
    done = []
    for command in commands:
        try:
            done.append(session.exec(("bash", "-c", command.command), workdir=WORKDIR, seconds=command.seconds))
        except SessionOver:
            break
    return done


def _open_folder() -> bytes:
    return pack_members({"logs": Member("dir", 0o755), ARTIFACTS.strip("/"): Member("dir", 0o777)})
