"""A container that stays, and programs run in it by the engine's exec calls.

An exec has no kill of its own and its children outlive it, so whatever runs too long ends the whole container.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import requests
from docker.errors import APIError, DockerException

from facet_dagster.adapters.docker_container import KILLED, CannotStart, Container, HostFull, end_of
from facet_dagster.adapters.docker_engine import CALL_SECONDS, CONFLICT, NOT_FOUND, Engine, engine_errors
from facet_dagster.adapters.docker_limits import bounded_text
from facet_dagster.adapters.docker_watchdog import Watchdog
from facet_dagster.domain.archive import ArchiveTooLarge
from facet_dagster.domain.trial import End, ExecResult
from facet_dagster.errors import OverLimits, SandboxError
from facet_dagster.ports import Run

_RETRIES = 2
_POLL = 0.05
_START_SECONDS = 30.0
_INIT = "docker-init"
# The engine learns of an out-of-memory kill by an event that may come after the exit.
_OOM_TRIES = 5
_FULL = "The Docker Engine's disk is nearly full; a session was stopped: free some space"


@contextlib.contextmanager
def opened(engine: Engine, run: Run, make: Callable[[], AbstractContextManager[Container]]) -> Iterator[DockerSession]:
    """A session in the container of ``make``, watched during the block. Raises SandboxError."""
    with ExitStack() as stack:
        session = DockerSession(engine, _started(engine, stack, make), run)
        stack.enter_context(Watchdog[End | HostFull](run.limits.seconds, session.check, session.kill))
        yield session


def _started(engine: Engine, stack: ExitStack, make: Callable[[], AbstractContextManager[Container]]) -> Container:
    """A running container that ``stack`` removes. What may pass is tried again, also a program half started."""
    for attempt in range(_RETRIES + 1):
        try:
            with ExitStack() as trying:
                container = trying.enter_context(make())
                container.start()
                _see_running(engine, container)
                stack.push(trying.pop_all())
                return container
        except CannotStart as fault:
            raise SandboxError(f"The program of a session cannot start in its image: {fault}") from fault
        except SandboxError as error:
            if not error.transient or attempt == _RETRIES:
                raise
            time.sleep(0.2 * 2**attempt)
    raise AssertionError("unreachable: the last attempt returns or raises")


def _see_running(engine: Engine, container: Container) -> None:
    """Wait until the init has become the program, which may not be there. Raises SandboxError."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        with engine_errors("list the processes of a session"):
            state = engine.api.inspect_container(container.id)["State"]
            if not state["Running"]:
                raise SandboxError(f"The program of a session ended at once, with exit code {state['ExitCode']}")
            with contextlib.suppress(APIError):  # it ended in between
                rows = engine.api.top(container.id, "-o pid,args")["Processes"] or ()
                if any(not row[-1].partition(" ")[0].endswith(_INIT) for row in rows):
                    return
        time.sleep(_POLL)
    raise SandboxError("The engine did not start the program of a session", transient=True)


class DockerSession:
    """See ports.Session. Execs may run beside each other; the end of one by its deadline ends them all."""

    def __init__(self, engine: Engine, container: Container, run: Run) -> None:
        self._engine, self._container, self._run = engine, container, run
        self._over: End | HostFull | None = None
        self._ooms: set[int] = set()

    def exec(
        self,
        argv: Sequence[str],
        *,
        user: str = "root",
        workdir: str = "/",
        env: Mapping[str, str] | None = None,
        seconds: float = 60.0,
    ) -> ExecResult:
        ident = self._create(argv, user, workdir, env or {})
        ooms, tail = len(self._ooms), _Tail(self._run.limits.output)
        call = _Call(self._engine, ident, tail)
        with Watchdog[End](seconds, lambda t: self._late(t, seconds), lambda: self.kill() or call.hang_up()) as dog:
            code = call.follow()
            elapsed = dog.elapsed
        end, code = self._ending(code)
        if end is End.EXITED and self._oom_after(ooms, patient=code == KILLED):
            end = End.OOM
        return ExecResult(end=end, exit_code=code, output=tail.text, seconds=elapsed)

    def collect(self, path: str) -> bytes | None:
        try:
            return self._container.collect(path, self._run.limits)
        except ArchiveTooLarge as error:
            raise OverLimits(f"{path} of a session is over its limits: {error}") from error

    def check(self, elapsed: float) -> End | HostFull | None:
        """What of the session's limits is used up, for its watchdog."""
        self._note_ooms()
        reason = self._container.over(self._run.limits, elapsed)
        # Known before the kill, so that an exec that sees its stream end also sees why.
        self._over = self._over or reason
        return reason

    def kill(self) -> bool:
        return self._container.kill()

    def _late(self, elapsed: float, seconds: float) -> End | None:
        if elapsed < seconds:
            return None
        self._over = self._over or End.TIMEOUT
        return End.TIMEOUT

    def _create(self, argv: Sequence[str], user: str, workdir: str, env: Mapping[str, str]) -> str:
        if self._over is not None:
            text = _FULL if isinstance(self._over, HostFull) else f"The session is over: {self._over}"
            raise SandboxError(f"{text}; open another one")
        with engine_errors("begin a program in a session"):
            try:
                made = self._engine.api.exec_create(
                    self._container.id, list(argv), user=user, workdir=workdir, environment=dict(env)
                )
            except APIError as error:
                if error.status_code in (NOT_FOUND, CONFLICT):
                    raise SandboxError(f"The container of a session has ended: {error.explanation}") from error
                raise
        return str(made["Id"])

    def _ending(self, code: int | None) -> tuple[End, int]:
        if isinstance(self._over, HostFull):
            raise SandboxError(_FULL)
        if self._over is not None:
            return self._over, KILLED if code is None else code
        if code is None:
            raise SandboxError("The engine lost track of a program in a session", transient=True)
        return end_of({}, code), code

    def _oom_after(self, known: int, *, patient: bool) -> bool:
        for _ in range(_OOM_TRIES if patient else 1):
            self._note_ooms()
            if len(self._ooms) > known:
                return True
            if patient:
                time.sleep(_POLL)
        return False

    def _note_ooms(self) -> None:
        """The state of a container does not tell of an out-of-memory kill in an exec; the engine's events do.

        The engine remembers few events, so they are noted while they are fresh.
        """
        wanted = {"container": [self._container.id], "event": ["oom"]}
        with contextlib.suppress(SandboxError), engine_errors("list the events of a container"):
            until = f"{time.time():.9f}"
            for event in self._engine.api.events(since="0", until=until, filters=wanted, decode=True):
                self._ooms.add(int(event.get("timeNano") or 0))


class _Call:
    """One exec from its start to its exit code."""

    def __init__(self, engine: Engine, ident: str, tail: _Tail) -> None:
        self._engine, self._ident, self._tail = engine, ident, tail
        self._stream: Any = None
        self._kills = 0

    def follow(self) -> int | None:
        """Run to the end; None when the engine cannot tell the exit code. Raises SandboxError."""
        try:
            with engine_errors("run a program in a session"):
                self._stream = self._engine.api.exec_start(self._ident, stream=True)
                for chunk in self._stream:
                    self._tail.add(chunk)
        except SandboxError:
            code = self._exit_code()
            if code is None:
                raise
            return code
        finally:
            self._close()
        return self._exit_code()

    def hang_up(self) -> bool:
        """For an engine that does not answer: after as many seconds as any call may take nobody waits longer."""
        self._kills += 1
        if self._kills * _POLL < CALL_SECONDS:
            return False
        self._close()
        return True

    def _exit_code(self) -> int | None:
        """Asked until the program has ended: it may have closed its output long before."""
        while True:
            with engine_errors("inspect a program in a session"):
                try:
                    found = self._engine.api.exec_inspect(self._ident)
                except APIError as error:
                    if error.status_code in (NOT_FOUND, CONFLICT):
                        return None  # forgotten together with its container
                    raise
            code = found.get("ExitCode")
            if not found.get("Running"):
                return code if isinstance(code, int) else None
            time.sleep(_POLL)

    def _close(self) -> None:
        with contextlib.suppress(DockerException, requests.RequestException, OSError, AttributeError):
            if self._stream is not None:
                self._stream.close()
                self._stream._response.close()


class _Tail:
    """The end of an output, in bounded memory however much comes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()

    def add(self, chunk: bytes) -> None:
        self._kept += chunk
        if len(self._kept) > 2 * self._limit:
            # One byte more than is shown, so that the text says that something was dropped.
            del self._kept[: len(self._kept) - self._limit - 1]

    @property
    def text(self) -> str:
        return bounded_text(bytes(self._kept), self._limit)
