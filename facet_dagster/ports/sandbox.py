"""Containers for hostile code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from facet_dagster.domain.trial import ExecResult, ImageInfo, Limits, Reaped


@dataclass(frozen=True)
class BuildContext:
    """Files of a build, ``Dockerfile`` included: relative path -> bytes. Paths in ``executable`` get mode 755.

    A ``.dockerignore`` among them leaves files out, as ``docker build`` would, and itself, but never the Dockerfile.
    """

    files: Mapping[str, bytes]
    executable: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Built:
    """``image`` is a tag made of the context's hash; ``reused`` when it was there already.

    ``executed`` counts the instructions that ran (RUN, COPY, ADD, WORKDIR); 0 when the builder's cache held all.
    """

    image: str
    reused: bool
    seconds: float
    executed: int = 0


@dataclass(frozen=True)
class BuildFailed:
    """The context's fault, not the engine's. ``log_tail`` is bounded plain text.

    ``step`` is the failing instruction, or ``context``, ``Dockerfile``, or the limit that was passed: ``timeout``,
    ``memory``, ``processes``, ``disk``.
    """

    step: str
    exit_code: int | None
    log_tail: str
    seconds: float


@dataclass(frozen=True)
class Put:
    """An archive (uncompressed tar) unpacked below ``target`` before the program starts.

    The folders it fills (``target``, or with target ``/`` the archive's top folders) are absent or empty in the
    image. Names, links and owners come from the archive; a name that would leave ``target`` is a SandboxError.
    """

    target: str
    archive: bytes


@dataclass(frozen=True)
class Run:
    """One fresh container without network, removed afterwards, and the program in it.

    ``argv`` runs under an init, as ``user`` (name or uid[:gid]) in ``workdir``; the image's entrypoint does not.
    ``collect`` are absolute paths read back after the program ended; ``outbox`` are absolute folders, absent or
    empty in the image, that are made empty and writable for everybody before the start and then read back like
    ``collect``. All of ``limits`` is enforced, with the whole process tree killed. ``subject`` and ``attempt``
    (a repair round) become labels.
    """

    image: str
    argv: tuple[str, ...]
    subject: str
    user: str = "root"
    workdir: str = "/"
    env: Mapping[str, str] = field(default_factory=dict)
    put: tuple[Put, ...] = ()
    collect: tuple[str, ...] = ()
    outbox: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    attempt: int = 0


@dataclass(frozen=True)
class RunOutcome:
    """``collected`` maps each path of ``Run.collect`` and ``Run.outbox`` to an archive of regular files, folders
    and links below it (names relative to the path's parent), or None when the path does not exist."""

    program: ExecResult
    collected: Mapping[str, bytes | None]


class Session(Protocol):
    """A container that lives until its block ends: services run in it, people look into it."""

    def exec(
        self,
        argv: Sequence[str],
        *,
        user: str = "root",
        workdir: str = "/",
        env: Mapping[str, str] | None = None,
        seconds: float = 60.0,
    ) -> ExecResult:
        """Run one program beside what runs there; its output is capped like the container's.

        A program that is not there, fails, or is killed is data (126 and 127: it could not start). One that
        takes more than ``seconds`` ends the whole container, since nothing else ends its children: End.TIMEOUT,
        and every later ``exec`` is a SessionOver. Raises SandboxError when the engine or the container is gone.
        """
        ...

    def collect(self, path: str) -> bytes | None:
        """Archive of ``path`` as in RunOutcome; None when absent. Also after the container ended.

        Raises SandboxError, namely OverLimits when it is over the limits of the session.
        """
        ...


class Sandbox(Protocol):
    """A container engine for hostile code: what runs there is data, what the engine does wrong is SandboxError.

    A SandboxError with ``transient`` may pass: it is raised after bounded retries, never costs a task anything,
    and the partition is computed again. Times are seconds, sizes bytes. Every method is thread-safe, and two
    processes on one engine never disturb each other. Nothing made here outlives its call but images.
    ``adapters/sandbox_contract.py`` is this page as checks; ``facet sandbox selfcheck`` runs them.
    """

    def build(
        self, context: BuildContext, *, subject: str, attempt: int = 0, seconds: float = 600.0, fresh: bool = False
    ) -> Built | BuildFailed:
        """Build once per content, over all processes; ``fresh``: without caches, for this call alone.

        A failed build leaves nothing. One over ``seconds`` is a BuildFailed with step ``timeout``; one of which a step
        takes too much ``memory``, ``processes`` or ``disk`` with that word; a context over its limits with ``context``.
        Raises SandboxError, also when the engine's disk is too full to begin.
        """
        ...

    def run(self, run: Run) -> RunOutcome:
        """Run one program in one container and remove it. What is too much to collect is End.DISK.

        Raises SandboxError: no such image, no engine, an engine that lost the container, a disk that is full.
        """
        ...

    def open(self, run: Run) -> AbstractContextManager[Session]:
        """Start ``run.argv``, which should stay, and keep the container for the block, ``limits.seconds`` at most.

        ``run.collect`` is not read: ask the session. Raises SandboxError, also when the program cannot start.
        """
        ...

    def read(self, image: str, path: str, limits: Limits | None = None) -> bytes | None:
        """Archive of ``path`` from a container of ``image`` that is created and never started; None if absent.

        Raises SandboxError, also when it is over ``limits``.
        """
        ...

    def image(self, name: str) -> ImageInfo | None:
        """What is known of an image; None when the engine has none of that name."""
        ...

    def hold(self, image: str) -> AbstractContextManager[bool]:
        """Keep the image from being removed by anybody during the block; gives whether it is there.

        Images are named by content, so two users who never met may share one.
        """
        ...

    def remove_image(self, image: str) -> None:
        """Remove the image unless somebody holds it; one that is gone is as good."""
        ...

    def reap(self, *, images: bool = False, everything: bool = False) -> Reaped:
        """Remove what dead processes left behind; ``everything`` also what live ones own, ``images`` also
        task images (base images never)."""
        ...

    def stop(self) -> None:
        """Begin nothing new and end what runs: calls in flight raise a transient SandboxError and leave nothing."""
        ...
