"""A shell for a person in the container of a task: the state of a trial, under its limits, gone on exit."""

from __future__ import annotations

import shutil
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.adapters.docker_session import DockerSession
from facet_dagster.domain.environment import WORKDIR, Service
from facet_dagster.domain.trial import End, ExecResult
from facet_dagster.errors import ConfigError
from facet_dagster.ports import Run
from facet_dagster.reports.states import State
from facet_dagster.stages.task import live
from facet_dagster.stages.task.images import environment_image
from facet_dagster.stages.task.package import AGENT, TaskLimits
from facet_dagster.stages.task.trial import ENV, solution_put

HOURS = 8
_GRACE = 10.0
_KILLED = 128 + 9
Say = Callable[[str], None]


@contextmanager
def opened(state: State, sandbox: DockerSandbox, *, user: str, limits: TaskLimits, say: Say) -> Iterator[DockerSession]:
    """The container of ``state``, for HOURS at most; what ran in it and what it said goes to ``say``.

    Raises SandboxError.
    """
    services = state.environment.recipe.services
    with environment_image(state.environment, sandbox, limits) as image:
        run = Run(
            image=image,
            argv=("sleep", "infinity"),
            subject=state.seed,
            user=user,
            workdir=WORKDIR,
            env=ENV,
            put=solution_put(state.solve_sh.encode()) if state.solve_sh else (),
            limits=limits.container(HOURS * 3600),
        )
        with sandbox.open(live.beside(run, HOURS * 3600) if services else run) as session:
            if services:
                say(_started(session, services))
            if state.solve_sh:
                say(_solved(session, limits.solution_seconds))
            for line in state.told:
                say(line)
            yield session


def _started(session: DockerSession, services: Sequence[Service]) -> str:
    done = live.start(session, services)
    names = ", ".join(service.name for service in services)
    return f"Services {names} are up." if done.ok else f"{done.output.rstrip()}\nServices {names} did not come up."


def _solved(session: DockerSession, seconds: float) -> str:
    """Run the solution as a trial does. ``timeout`` ends it at its limit, since a session would end as a whole."""
    argv = ("timeout", "-s", "KILL", f"{seconds:g}", "bash", "/solution/solve.sh")
    done = session.exec(argv, user=AGENT, workdir=WORKDIR, env=ENV, seconds=seconds + _GRACE)
    over = done.end is End.TIMEOUT or (done.exit_code == _KILLED and done.seconds >= seconds)
    how = f"was stopped after {seconds:g} s" if over else f"ended with exit code {done.exit_code}"
    return f"{done.output.rstrip()}\n/solution/solve.sh {how}.".lstrip()


def command(session: DockerSession, text: str, user: str) -> ExecResult:
    """One command for bash, as a person would type it; errors and output in the order in which they came."""
    return session.exec(("bash", "-c", f"exec 2>&1\n{text}"), user=user, workdir=WORKDIR, env=ENV, seconds=HOURS * 3600)


def check_terminal() -> None:
    """Raises ConfigError where nobody can type, or the docker command is not there."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError('A shell needs a terminal: give --command "..." to run one command without')
    if shutil.which("docker") is None:
        raise ConfigError('A shell needs the docker command line tool: install it, or give --command "..."')


def interact(session: DockerSession, user: str) -> int:
    """A shell on this terminal until it is left; its exit code. The docker tool goes where DOCKER_HOST says."""
    settings = [part for name, value in ENV.items() for part in ("-e", f"{name}={value}")]
    argv = ["docker", "exec", "-it", "-u", user, "-w", WORKDIR, *settings, session.container_id, "bash"]
    terminal = termios.tcgetattr(sys.stdin)
    try:
        return subprocess.call(argv)
    finally:
        # A tool that was killed leaves the terminal as it set it: nothing typed would show.
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, terminal)
