"""Sandbox in memory: the twin for tests of stages. Nothing is executed; a script says how programs end."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from facet_dagster.adapters.docker_context import content_tag, external_bases, packable, unshared_tag
from facet_dagster.domain.archive import ArchiveError, Member, folders_of, pack, pack_members, sanitise, unpack
from facet_dagster.domain.ids import digest
from facet_dagster.domain.trial import End, ExecResult, ImageInfo, Limits, Reaped
from facet_dagster.errors import OverLimits, SandboxError, SessionOver
from facet_dagster.ports import BuildContext, BuildFailed, Built, Run, RunOutcome, Session

_CONTEXT_LIMITS = Limits(archive=2**62, entries=2**62)
Script = Callable[[Run], RunOutcome]


@dataclass(frozen=True)
class Exec:
    """One program asked for in the session of ``run``."""

    run: Run
    argv: tuple[str, ...]
    user: str
    workdir: str
    env: Mapping[str, str]
    seconds: float


ExecScript = Callable[[Exec], ExecResult]


def ended(
    exit_code: int = 0,
    output: str = "",
    *,
    end: End = End.EXITED,
    seconds: float = 0.1,
    collected: Mapping[str, bytes | None] | None = None,
) -> RunOutcome:
    """A RunOutcome for scripts; without arguments that of a program that succeeded silently."""
    program = ExecResult(end=end, exit_code=exit_code, output=output, seconds=seconds)
    return RunOutcome(program, dict(collected or {}))


def succeed(run: Run) -> RunOutcome:
    """The default script: every program succeeds and leaves nothing."""
    return ended(collected=dict.fromkeys((*run.collect, *run.outbox)))


def succeed_exec(asked: Exec) -> ExecResult:
    """The default script of sessions: every program succeeds silently."""
    return ended(seconds=min(0.1, asked.seconds)).program


class MemorySession:
    """``script`` answers each exec; ``collected`` is what a collect finds. A scripted End.TIMEOUT ends the session."""

    def __init__(self, run: Run, script: ExecScript, collected: Mapping[str, bytes | None], asked: list[Exec]) -> None:
        self._run, self._script, self._collected, self._asked = run, script, collected, asked
        self._over = False

    def exec(
        self,
        argv: Sequence[str],
        *,
        user: str = "root",
        workdir: str = "/",
        env: Mapping[str, str] | None = None,
        seconds: float = 60.0,
    ) -> ExecResult:
        if self._over:
            raise SessionOver("The session is over; open another one")
        asked = Exec(self._run, tuple(argv), user, workdir, dict(env or {}), seconds)
        self._asked.append(asked)
        result = self._script(asked)
        self._over = result.end is End.TIMEOUT
        return result

    def collect(self, path: str) -> bytes | None:
        return self._collected.get(path)


@dataclass
class _Image:
    root: dict[str, Member]
    labels: dict[str, str] = field(default_factory=dict)


class MemorySandbox:
    """``script`` answers each run, and says what an opened session leaves to collect; ``exec_script`` answers each
    exec in a session. ``failures`` maps a text to the BuildFailed of every Dockerfile that holds it.

    Images hold the files of their context's ``app/`` folder under ``/app``, and ``root`` (absolute path -> bytes)
    besides. ``builds``, ``runs``, ``execs`` and ``reads`` record what was asked.
    """

    def __init__(
        self,
        script: Script = succeed,
        *,
        failures: Mapping[str, BuildFailed] | None = None,
        bases: tuple[str, ...] = ("python:3.11-slim-bookworm",),
        root: Mapping[str, bytes] | None = None,
        exec_script: ExecScript = succeed_exec,
    ) -> None:
        self._exec_script = exec_script
        self._script, self._failures = script, dict(failures or {})
        self._held: Counter[str] = Counter()
        self._root = unpack(pack({path.lstrip("/"): data for path, data in (root or {}).items()}))
        self._bases = {name: _Image(dict(self._root)) for name in bases}
        self._images: dict[str, _Image] = {}
        self._guard = threading.Lock()
        self.builds: list[tuple[str, BuildContext]] = []
        self.runs: list[Run] = []
        self.execs: list[Exec] = []
        self.reads: list[tuple[str, str]] = []

    def build(
        self, context: BuildContext, *, subject: str, attempt: int = 0, seconds: float = 600.0, fresh: bool = False
    ) -> Built | BuildFailed:
        del seconds
        dockerfile = context.files.get("Dockerfile", b"").decode(errors="replace")
        with self._guard:
            self.builds.append((subject, context))
            failed = self._refused(dockerfile, context)
            if failed is not None:
                return failed
            context = packable(context, _CONTEXT_LIMITS)
            tag = content_tag(context, {base: self._id(base) for base in external_bases(dockerfile)})
            if fresh:
                tag = unshared_tag()
            reused = tag in self._images
            if not reused:
                self._images[tag] = _Image(
                    {**self._root, **_app_files(context)}, {"facet.subject": subject, "facet.attempt": str(attempt)}
                )
            return Built(tag, reused=reused, seconds=0.0)

    def run(self, run: Run) -> RunOutcome:
        with self._guard:
            self._image(run.image)
            self.runs.append(run)
        return self._script(run)

    @contextmanager
    def open(self, run: Run) -> Iterator[Session]:
        yield MemorySession(run, self._exec_script, self.run(run).collected, self.execs)

    def read(self, image: str, path: str, limits: Limits | None = None) -> bytes | None:
        with self._guard:
            self.reads.append((image, path))
            root = self._image(image).root
        wanted = path.strip("/")
        inside = {p: m for p, m in root.items() if not wanted or p == wanted or p.startswith(wanted + "/")}
        if not inside:
            return None
        parent = PurePosixPath(wanted).parent.as_posix() + "/" if "/" in wanted else ""
        archive = pack_members({p.removeprefix(parent): m for p, m in inside.items()})
        try:
            return sanitise(archive, limits or Limits())
        except ArchiveError as error:
            raise OverLimits(f"{path} of image {image} is over its limits: {error}") from error

    def image(self, name: str) -> ImageInfo | None:
        with self._guard:
            found = self._images.get(name) or self._bases.get(name)
            if found is None:
                return None
            size = sum(member.size for member in found.root.values())
            return ImageInfo(self._id(name), {"PATH": "/usr/local/bin:/usr/bin:/bin"}, "", dict(found.labels), size)

    @contextmanager
    def hold(self, image: str) -> Iterator[bool]:
        with self._guard:
            self._held[image] += 1
        try:
            yield self.image(image) is not None
        finally:
            with self._guard:
                self._held[image] -= 1

    def remove_image(self, image: str) -> None:
        with self._guard:
            if not self._held[image]:
                self._images.pop(image, None)

    def reap(self, *, images: bool = False, everything: bool = False) -> Reaped:
        """No process owns anything here: only ``images`` together with ``everything`` removes."""
        with self._guard:
            removed = tuple(i for i in self._images if not self._held[i]) if images and everything else ()
            for name in removed:
                del self._images[name]
            return Reaped(images=removed)

    def stop(self) -> None:
        """Nothing runs here."""

    def _refused(self, dockerfile: str, context: BuildContext) -> BuildFailed | None:
        for base in external_bases(dockerfile):
            if base not in self._bases and base not in self._images:
                text = f"base image {base} is not available; available: {', '.join(sorted(self._bases)) or 'none'}"
                return BuildFailed(f"FROM {base}", None, text, 0.0)
        if not dockerfile:
            return BuildFailed("Dockerfile", None, "the context holds no Dockerfile", 0.0)
        try:
            pack(context.files, executable=context.executable)
        except ArchiveError as error:
            return BuildFailed("context", None, str(error), 0.0)
        return next((failed for text, failed in self._failures.items() if text in dockerfile), None)

    def _image(self, name: str) -> _Image:
        found = self._images.get(name) or self._bases.get(name)
        if found is None:
            raise SandboxError(f"Image {name} is not on the engine: build it first")
        return found

    def _id(self, name: str) -> str:
        return f"sha256:{digest(name)}"


def _app_files(context: BuildContext) -> dict[str, Member]:
    files = {path: data for path, data in context.files.items() if path.startswith("app/")}
    return unpack(pack(files, executable=context.executable, folders=folders_of(files) | {"app"}))
