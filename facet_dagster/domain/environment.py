"""The realised environment: recipe, build, and the captured initial state e0 (paper, section 3.3)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from facet_dagster.domain.outcome import Value

WORKDIR = "/app"


class PlannedFile(Value):
    path: str = Field(description="relative to /app")
    purpose: str
    how: Literal["literal", "generated"]
    encoding: str = "utf-8"
    newline: Literal["lf", "crlf", "none"] = "lf"
    rows: int = Field(description="approximate number of records or lines")
    discriminators: list[str] = Field(default=[], description="ids of the discriminators whose row stands here")


class ManifestReply(Value):
    """Reply of the ``manifest`` call: what the container must hold, before any of it is written."""

    packages: list[str] = Field(
        description="Debian packages the work needs beyond python3, bash, coreutils, gawk-less awk"
    )
    rules_file: str = Field(description="relative to /app; the numbered rules that solver and verifier share")
    files: list[PlannedFile] = Field(description="every initial file, rules file included", min_length=3)


class SourceFile(Value):
    path: str = Field(description="relative to /app, no '..'")
    content: str
    executable: bool = False


class RecipeReply(Value):
    """Reply of the ``environment`` call: the literal files and, if any, one generator."""

    files: list[SourceFile] = Field(description="literal files, complete")
    generator: str = Field(
        default="",
        description="Python 3 standard-library script run once at build with working directory /app; may be empty",
    )


class FileEdit(Value):
    """Replace ``find`` (must occur exactly once) by ``replace`` in one file."""

    path: str
    find: str
    replace: str


class EnvironmentRepairReply(Value):
    """Reply of the ``repair_environment`` call: edits only, never a new start."""

    diagnosis: str
    edits: list[FileEdit] = Field(default=[], description="path 'generator' edits the generator")
    add_packages: list[str] = []
    remove_packages: list[str] = []


class Recipe(Value):
    """Everything from which the environment image is built. The Dockerfile is rendered, never written."""

    packages: tuple[str, ...]
    rules_file: str
    files: tuple[SourceFile, ...]
    generator: str = ""


class BuildAttempt(Value):
    """One build: ``image`` is the content tag when it succeeded, else ``failed_step`` and ``log_tail`` tell."""

    round: int
    recipe: str
    image: str | None = None
    failed_step: str = ""
    exit_code: int | None = None
    log_tail: str = ""
    problems: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return self.image is not None and not self.problems


class E0File(Value):
    """One path of the captured initial state. ``content`` is set for text up to the preview limit."""

    path: str
    type: Literal["file", "dir", "link", "other"]
    mode: str
    uid: int
    gid: int
    size: int
    sha256: str = ""
    encoding: str = ""
    newline: str = ""
    final_newline: bool = True
    lines: int = 0
    content: str = ""
    truncated: bool = False
    inner: dict[str, Any] = Field(default={}, description="members or tables of archives and databases")


class E0(Value):
    """The executable initial state, read through the engine (architecture: shared by I, S and V)."""

    workdir: str
    files: tuple[E0File, ...]
    tools: tuple[str, ...]
    tool_versions: dict[str, str] = {}
    env: dict[str, str] = {}
    user: str = ""
    image_id: str = ""
    base_image: str = ""


class Environment(Value):
    """A built environment with its history; the value of ``first_build`` and ``environment``."""

    seed: str
    manifest: ManifestReply
    recipe: Recipe
    attempts: tuple[BuildAttempt, ...]
    e0: E0 | None = None
    base_image: str = ""
    standin: bool = False

    @property
    def image(self) -> str | None:
        return self.attempts[-1].image if self.attempts and self.attempts[-1].ok else None
