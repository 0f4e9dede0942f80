"""What a container run needs and gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import TypeAdapter, ValidationError

from facet_dagster.domain.outcome import Sparse, Value


class Limits(Value):
    """Caps of one container. Times in seconds, memory and sizes in bytes."""

    seconds: float = 120.0
    memory: int = 1024 * 1024 * 1024
    cpus: float = 1.0
    pids: int = 256
    output: int = 64 * 1024
    disk: int = 512 * 1024 * 1024
    archive: int = 64 * 1024 * 1024
    entries: int = 20_000


CANNOT_START = 126


class End(StrEnum):
    """How a program ended. Engine trouble is not here: it is a SandboxError."""

    EXITED = "exited"
    TIMEOUT = "timeout"
    OOM = "oom"
    DISK = "disk"


class ExecResult(Value):
    """A program ran: how it ended, its exit code, and the tail of its output (undecodable bytes replaced)."""

    end: End
    exit_code: int
    output: str
    seconds: float

    @property
    def ok(self) -> bool:
        return self.end is End.EXITED and self.exit_code == 0

    @property
    def never_started(self) -> bool:
        """The image is such that nothing ran: its user, its folder or the program is not there."""
        return self.exit_code == CANNOT_START and self.seconds == 0.0


class CheckResult(Value):
    """One verifier check. ``blocked``: a check that it depends on did not pass."""

    id: str
    requirement: str
    status: Literal["pass", "fail", "error", "blocked"]
    message: str = ""


class _Entry(Value):
    """One element of checks.json, as a package's verifier writes it."""

    id: str
    rid: str
    status: str
    message: str


_ENTRIES = TypeAdapter(list[_Entry])


def read_checks(data: bytes | None) -> tuple[CheckResult, ...]:
    """The checks of a checks.json; none where any of it is not well formed."""
    try:
        return tuple(
            CheckResult.model_validate({"id": e.id, "requirement": e.rid, "status": e.status, "message": e.message})
            for e in _ENTRIES.validate_json(data or b"")
        )
    except ValidationError:
        return ()


class TrialKind(StrEnum):
    """Nothing done, or the reference solution run."""

    BASELINE = "baseline"
    ORACLE = "oracle"


class Trial(Sparse):
    """Solution container, artifacts, verifier container. ``reward`` is None when no valid reward was written.

    ``services`` is how they came up, None in a task without any, and ``collected`` how the collect commands ended.
    ``solution`` is None when the services did not come up.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"services", "collected"})

    kind: TrialKind
    reward: int | None
    checks: tuple[CheckResult, ...]
    solution: ExecResult | None
    verifier: ExecResult
    seconds: float
    services: ExecResult | None = None
    collected: tuple[ExecResult, ...] = ()


@dataclass(frozen=True)
class ImageInfo:
    """What the engine knows about an image; ``size`` in bytes."""

    id: str
    env: Mapping[str, str]
    user: str
    labels: Mapping[str, str]
    size: int


@dataclass(frozen=True)
class Reaped:
    """Ids and tags of what ``reap`` removed; ``subjects`` maps containers to what they were made for."""

    containers: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    subjects: Mapping[str, str] = field(default_factory=dict)
