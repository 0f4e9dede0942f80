"""The life of one container: created, filled, started, watched, read, removed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import IO, Any, Protocol, cast

import requests
from docker.errors import APIError

from facet_dagster.adapters.docker_engine import CALL_SECONDS, NOT_FOUND, Engine, engine_errors
from facet_dagster.adapters.docker_limits import bounded_text
from facet_dagster.adapters.docker_removal import remove_container
from facet_dagster.adapters.docker_watchdog import Watchdog
from facet_dagster.domain.archive import ArchiveError, ArchiveTooLarge, Member, pack_members, sanitise
from facet_dagster.domain.trial import CANNOT_START, End, ExecResult, Limits
from facet_dagster.errors import SandboxError

_FILE_TOO_BIG = 128 + 25  # ended by SIGXFSZ, the limit on a file's size
KILLED = 128 + 9
_OOM_SECONDS = 2.0
# The engine's words for an image that cannot run the program: its user, its folder or the program is not there.
_IMAGE_FAULTS = (
    "unable to find user",
    "unable to find group",
    "no matching entries in",
    "not a directory",
    "is a directory",
    "too many levels of symbolic links",
    "permission denied",
    "executable file not found",
    "exec format error",
)


class Shared(Protocol):
    """Folders that the container mounts, as far as its life needs them."""

    def size(self, most: int) -> int:
        """Bytes on disk; stops counting over ``most``. Raises ArchiveTooLarge."""
        ...

    def collect(self, path: str, limits: Limits) -> bytes | None:
        """Archive of the mounted folder ``path``, None when it is not one. Raises ArchiveTooLarge."""
        ...


class HostFull:
    """A reason to stop that is not the program's: somebody filled the engine's disk."""


class CannotStart(Exception):
    """The image is such that the program cannot run in it: data about the image, not engine trouble."""

    @property
    def result(self) -> ExecResult:
        return ExecResult(end=End.EXITED, exit_code=CANNOT_START, output=str(self), seconds=0.0)


@contextlib.contextmanager
def image_faults() -> Iterator[None]:
    """Inside ``engine_errors``: tell the image's faults from the engine's. Raises CannotStart."""
    try:
        yield
    except APIError as error:
        text = str(error.explanation or error)
        if any(sign in text.lower() for sign in _IMAGE_FAULTS):
            raise CannotStart(text) from error
        raise


class Container:
    """One container. ``started`` turns true as soon as its program may have run."""

    def __init__(self, engine: Engine, ident: str, shared: Shared | None = None) -> None:
        self._engine, self._shared = engine, shared
        self.id = ident
        self.started = False

    def put(self, members: Mapping[str, Member]) -> None:
        """Write ``members`` (paths relative to the root) before the start. Raises CannotStart."""
        if members:
            with engine_errors("put files into a container"), image_faults():
                self._engine.api.put_archive(self.id, "/", pack_members(members))

    def execute(self, limits: Limits) -> ExecResult:
        """Start the program and wait for its end, or for the end of its limits. Raises CannotStart."""
        self.start()
        with Watchdog[End | HostFull](limits.seconds, lambda t: self.over(limits, t), self.kill) as dog:
            with engine_errors("wait for a container"):
                self._engine.api.wait(self.id, timeout=int(limits.seconds) + CALL_SECONDS)
            seconds = dog.elapsed
        # A program that fails of a full disk may end before the watchdog looks.
        if isinstance(dog.reason, HostFull) or (dog.reason is None and self._engine.disk_is_full):
            raise SandboxError("The Docker Engine's disk is nearly full; a program was stopped: free some space")
        state = self._ended_state(killed_by_us=dog.reason is not None)
        code = int(state["ExitCode"])
        return ExecResult(
            end=dog.reason or end_of(state, code), exit_code=code, output=self._output(limits.output), seconds=seconds
        )

    def collect(self, path: str, limits: Limits) -> bytes | None:
        """Like ``read``, also of a mounted folder."""
        mounted = self._shared.collect(path, limits) if self._shared else None
        return mounted if mounted is not None else self.read(path, limits)

    def read(self, path: str, limits: Limits) -> bytes | None:
        """Sanitised archive of one path, or None. Raises ArchiveTooLarge when over ``limits``."""
        with engine_errors("read files of a container"), self._archive(path) as response:
            if response is None:
                return None
            try:
                return sanitise(cast("IO[bytes]", response.raw), limits)
            except ArchiveTooLarge:
                raise
            except ArchiveError as error:
                raise SandboxError(f"The engine broke off an archive of {path}: {error}", transient=True) from error

    def kill(self) -> bool:
        """End every process of the container; False when it had ended before, or the engine did not do it."""
        try:
            self._engine.api.kill(self.id)
        except (APIError, requests.RequestException, OSError):
            return False
        return True

    def remove(self) -> None:
        """Remove the container and its anonymous volumes, and see that it is gone. Raises SandboxError."""
        remove_container(self._engine, self.id)

    def start(self) -> None:
        """Start the program. Raises CannotStart."""
        with engine_errors("start a container"), image_faults():
            try:
                self._engine.api.start(self.id)
            except APIError:
                raise  # the engine says no: nothing ran
            except (requests.RequestException, OSError):
                self.started = True
                raise
        self.started = True

    def over(self, limits: Limits, elapsed: float) -> End | HostFull | None:
        """Which of its limits is used up after ``elapsed`` seconds, if any."""
        if elapsed >= limits.seconds:
            return End.TIMEOUT
        with contextlib.suppress(SandboxError), engine_errors("measure a container"):
            api = self._engine.api
            answer = api._get(api._url("/containers/{0}/json", self.id), params={"size": "1"})
            written = int(answer.json().get("SizeRw") or 0)
            if written + self._beside(limits.disk) > limits.disk:
                return End.DISK
            return HostFull() if self._engine.disk_is_full else None
        return None

    def _beside(self, most: int) -> int:
        """Bytes that it wrote into mounted folders."""
        try:
            return self._shared.size(most) if self._shared else 0
        except ArchiveTooLarge:  # folders nested so deep that they cannot be counted
            return most + 1

    def _ended_state(self, *, killed_by_us: bool) -> Mapping[str, Any]:
        state = self._state()
        # The engine learns of an out-of-memory kill by an event that may come after the exit, on a busy machine late.
        deadline = time.monotonic() + _OOM_SECONDS
        while not killed_by_us and state["ExitCode"] == KILLED and not state.get("OOMKilled"):
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
            state = self._state()
        return state

    def _state(self) -> Mapping[str, Any]:
        with engine_errors("inspect a container"):
            state: Mapping[str, Any] = self._engine.api.inspect_container(self.id)["State"]
        if state.get("Status") != "exited" or not isinstance(state.get("ExitCode"), int):
            raise SandboxError(f"The engine lost track of a container: {state.get('Status')}", transient=True)
        return state

    def _output(self, limit: int) -> str:
        with engine_errors("read a container's output"):
            api = self._engine.api
            answer = api._get(api._url("/containers/{0}/logs", self.id), params={"stdout": "1", "stderr": "1"})
            # docker-py's own call would first ask the engine whether there is a terminal.
            return bounded_text(api._get_result_tty(False, answer, False), limit)

    @contextlib.contextmanager
    def _archive(self, path: str) -> Iterator[requests.Response | None]:
        """A half-read archive locks its container for good, so the response is closed on every way out."""
        api = self._engine.api
        response: requests.Response = api._get(
            api._url("/containers/{0}/archive", self.id),
            params={"path": path},
            # We read the bytes as they come; newer engines would compress them.
            headers={"Accept-Encoding": "identity"},
            stream=True,
        )
        with contextlib.closing(response):
            if response.status_code == NOT_FOUND and "no such container" not in response.text.lower():
                yield None
                return
            api._raise_for_status(response)
            yield response


def end_of(state: Mapping[str, Any], code: int) -> End:
    if state.get("OOMKilled"):
        return End.OOM
    return End.DISK if code == _FILE_TOO_BIG else End.EXITED
