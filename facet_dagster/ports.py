"""Read me first: everything the funnel needs from the outside world.

Nine protocols. Stages take them as keyword arguments; ``adapters/`` holds one class a file, named
<Vendor><Port>; ``adapters/memory.py`` holds an in-memory twin of each, for tests. Every method raises
the PortError of its port when the service fails, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from facet_dagster.domain.facts import Fact
from facet_dagster.domain.rollout import RawAttempt, RolloutProtocol
from facet_dagster.domain.trial import ExecResult, ImageInfo, Limits, Reaped

Reply = TypeVar("Reply", bound=BaseModel)
AnyFact = TypeVar("AnyFact", bound=Fact)
Vectors = NDArray[np.float32]


class LLM(Protocol):
    """A model behind a cache, a tape or a provider."""

    def ask(
        self,
        call: str,
        variables: Mapping[str, Any],
        schema: type[Reply],
        *,
        subject: str,
        attempt: int = 0,
    ) -> Reply:
        """Render prompt ``call`` with ``variables`` and return the reply as ``schema``.

        ``subject`` is the skill, candidate or seed that pays; ``attempt`` > 0 asks anew for the same
        variables. One repair call is made on a malformed reply.

        Raises MalformedReply (data: the caller rejects the subject), TapeMiss, or another LLMError.
        """
        ...

    def pin(self, name: str, subject: str, compute: Callable[[], list[str]]) -> list[str]:
        """A decision that depends on this machine's arithmetic (a ranking), kept with the replies.

        Returns ``compute()``; a replay returns what was recorded under (name, subject) instead, so that
        a tape works where vectors differ in the last digit.
        """
        ...

    def counters(self) -> Mapping[str, float]:
        """What was asked here so far: calls, hits, retries, waited (seconds), malformed, tokens, cost (USD)."""
        ...

    def stop(self) -> None:
        """Begin no new paid call: ``ask`` raises Stopping. Those in flight end and are stored."""
        ...


class Embedder(Protocol):
    """Text to unit vectors."""

    @property
    def name(self) -> str:
        """Model and number format; part of every cached vector's key."""
        ...

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Float32 array of shape (len(texts), dim), rows of norm 1. Raises EmbedderError."""
        ...


@dataclass(frozen=True)
class Point:
    """A vector with an id (any text) and flat text payload."""

    id: str
    vector: Sequence[float]
    payload: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Hit:
    """A found point; ``score`` is the cosine."""

    id: str
    score: float
    payload: Mapping[str, str]


class VectorStore(Protocol):
    """One collection, cosine distance. Raises VectorStoreError."""

    def upsert(self, points: Sequence[Point]) -> None: ...

    def query(
        self, vectors: Sequence[Sequence[float]], *, limit: int, where: Mapping[str, str] | None = None
    ) -> list[list[Hit]]:
        """For each vector the ``limit`` nearest points whose payload equals ``where``, best first, ties by id."""
        ...

    def ids(self) -> set[str]: ...

    def delete(self, ids: Sequence[str]) -> None: ...

    def close(self) -> None:
        """Release files and locks; the object is not usable afterwards."""
        ...


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


class SourceTree(Protocol):
    """Files of one source of skills, hostile as they are: no link is followed, nothing is run. Raises SourceError.

    ``place`` names the source in texts, ``commit`` the state of a repository; paths are relative, with slashes.
    """

    @property
    def place(self) -> str: ...

    @property
    def commit(self) -> str: ...

    def paths(self) -> Mapping[str, bool]:
        """Path of every file -> whether it is a link; without .git and node_modules."""
        ...

    def read(self, path: str, cap: int) -> tuple[int, bytes]:
        """Size and bytes of a file; no bytes when it is larger than ``cap``. A link is read as its target's name.

        Raises OSError when this one file cannot be read.
        """
        ...


@dataclass(frozen=True)
class Order:
    """``attempts`` rollouts on the task ``key``, whose package ``write`` puts into a folder."""

    key: str
    write: Callable[[Path], None]
    attempts: int


class Harness(Protocol):
    """Agents on tasks: a rollout is one attempt in fresh containers, judged by the task's verifier."""

    def run(self, orders: Sequence[Order], protocol: RolloutProtocol, done: Callable[[RawAttempt], None]) -> None:
        """Make all attempts; ``done`` gets each as it ends, from this thread. What agents do is data.

        Raises ConfigError when there is no harness, a transient SandboxError when it ends early: what was told stays.
        """
        ...

    def stop(self) -> None:
        """End what runs: ``run`` raises a transient SandboxError and leaves nothing."""
        ...


class TokenCounter(Protocol):
    """How long a text is for the model that shall be trained."""

    @property
    def name(self) -> str:
        """Of the tokenizer; part of what was judged by it."""
        ...

    def count(self, text: str) -> int: ...


class ArtifactStore(Protocol):
    """Content-addressed blobs. Raises LedgerError."""

    def put(self, data: bytes) -> str:
        """Store and return the sha256 (64 hex digits)."""
        ...

    def get(self, sha256: str) -> bytes: ...

    def has(self, sha256: str) -> bool: ...


class Ledger(Protocol):
    """Append-only lineage. Raises LedgerError."""

    def append(self, facts: Iterable[Fact]) -> None:
        """Store all or none; facts whose id is there already are left as they are."""
        ...

    def find(self, kind: type[AnyFact], /, **where: Any) -> list[AnyFact]:
        """Facts whose columns equal ``where`` (a list or set means "in"), in the order of appending."""
        ...

    def values(self, kind: type[Fact], /, *columns: str, **where: Any) -> list[tuple[Any, ...]]:
        """Plain columns, or ``at`` (when appended, aware), of the facts that ``find`` would give; cheaper for many."""
        ...

    def total(self, kind: type[Fact], column: str, **where: Any) -> float:
        """Sum of a number column over the facts that ``find`` would give; missing numbers count as 0."""
        ...

    def evict(self, kind: type[Fact], *, before: datetime | None = None, **where: Any) -> int:
        """Forget facts that are a cache and no lineage, appended ``before`` (aware); gives how many.

        Raises InvariantError for any other class than ReplyFact: lineage is never forgotten.
        """
        ...

    def claim(self, name: str, *, wait: bool = True) -> AbstractContextManager[None]:
        """Hold ``name`` against every other process, until this one dies; Held if it is taken and not waited for."""
        ...

    def ancestors(self, ident: str) -> list[tuple[int, str, str, str]]:
        """Edges (depth, child, parent, kind) from ``ident`` up to its sources, nearest first."""
        ...
