"""The realised environment: recipe, build, and the captured initial state e0 (paper, section 3.3)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from facet_dagster.domain.ids import to_json
from facet_dagster.domain.outcome import Sparse, Value

WORKDIR = "/app"
VIEW_FILES = 60
FACTS = 4_000
SERVICE_NAME = r"^[a-z][a-z0-9-]{0,30}$"
ServicePackage = Literal["redis-server", "nginx-light", "memcached", "postgresql", "python3"]
Line = Annotated[str, Field(min_length=1, max_length=2_000, pattern=r"^[^\n\r\x00]+$")]


class PlannedFile(Value):
    """One file of the manifest."""

    path: str = Field(description="relative to /app")
    purpose: str = Field(description="what it holds: fields, value ranges, defects on purpose")
    how: Literal["literal", "generated"] = Field(
        description="literal: written out in full; generated: by the generator"
    )
    encoding: str = Field(
        default="utf-8",
        description="utf-8, utf-8-sig, utf-16, windows-1252, iso-8859-1, or binary (archives, databases)",
    )
    newline: Literal["lf", "crlf", "mixed", "none"] = Field(
        default="lf",
        description="line ends; mixed: some lines end in \\r\\n, some in \\n, and a literal file is stored as it is "
        "written; none for binary files and files without a line break",
    )
    rows: int = Field(description="approximate number of records or lines", ge=0)
    discriminators: list[str] = Field(default=[], description="ids of the discriminators whose row stands here")


class PlannedService(Value):
    """One server that runs while the agent works."""

    name: str = Field(pattern=SERVICE_NAME, description="short and lower case, e.g. redis")
    package: ServicePackage = Field(
        description="the Debian package that brings it; python3: a small server of your own, standard library alone, "
        "in a literal file"
    )
    port: int = Field(ge=1_024, le=65_535, description="the TCP port on 127.0.0.1; 6379, 8080, 11211, 5432, 8000")
    use: Literal["query", "change", "configure"] = Field(
        description="query: the work only reads it; change: the work changes what it holds; configure: the work edits "
        "its configuration below /app and reloads it"
    )
    purpose: str = Field(description="what it holds at the start, with defects on purpose, and what the work does")


class ManifestReply(Sparse):
    """Reply of the ``manifest`` call: what the container must hold, before any of it is written."""

    SPARSE: ClassVar[frozenset[str]] = frozenset({"services"})

    packages: list[str] = Field(
        description="Debian packages the work needs beyond python3 (standard library), bash, coreutils, mawk, sed, "
        "grep, diffutils, findutils, gzip, tar, perl-base; usually none to three, such as jq or sqlite3"
    )
    rules_file: str = Field(description="relative to /app; the numbered rules that solver and verifier share")
    files: list[PlannedFile] = Field(description="every initial file, rules file included", min_length=3)
    services: list[PlannedService] = Field(
        default=[], max_length=2, description="servers that the scenario is about; nearly always none"
    )


class SourceFile(Value):
    """One literal file of a recipe."""

    path: str = Field(description="relative to /app, no '..'")
    content: str = Field(
        description="the complete text, with \\n as line end; it is stored in the encoding and with the line ends that "
        "the manifest gives; only where these are mixed, write \\r\\n at the end of the lines that end so"
    )
    executable: bool = False


class DiscriminatorRow(Value):
    """Where a discriminator's row stands in the finished files, so that it can be found again."""

    id: str = Field(description="the discriminator, e.g. D2")
    path: str = Field(description="relative to /app")
    find: str = Field(
        description="the shortest text that marks its row in that finished file, best the row's unique id; where that "
        "id occurs more than once by design, enough of the line to be this line alone; one line",
        min_length=2,
        max_length=120,
    )


class Service(Value):
    """A program that runs while the agent works. Its log is /var/log/facet/<name>.log.

    ``command`` and ``healthcheck`` are lines of shell, run as ``user`` in ``workdir``; the command stays in the
    foreground, and the healthcheck succeeds within ``seconds`` of its start. ``set_up`` is shell, run once at build
    in the same way: it initialises what lies below ``folders`` (absolute), which are made for ``user`` alone.
    """

    name: str = Field(pattern=SERVICE_NAME, description="as the manifest names it")
    command: Line = Field(description="one line of shell that stays in the foreground, best 'exec PROGRAM ...'")
    healthcheck: Line = Field(description="one line of shell that asks the service and succeeds when it answers")
    user: str = Field(
        default="agent",
        pattern=r"^[a-z_][a-z0-9_-]{0,31}$",
        description="agent, or the user that its package brings: redis, www-data, memcache, postgres; never root",
    )
    workdir: str = Field(default=WORKDIR, pattern=r"^/[^\n\r\x00]*$", description="/app, or one of its folders")
    seconds: int = Field(default=30, ge=1, le=300, description="until it is healthy")
    ports: tuple[Annotated[int, Field(ge=1, le=65_535)], ...] = Field(
        default=(), description="the TCP ports on which it listens, on 127.0.0.1 alone"
    )
    folders: tuple[Annotated[str, Field(pattern=r"^/[A-Za-z0-9._/-]+$")], ...] = Field(
        default=(), description="its own folders below /var/lib or /srv; they are made for its user alone"
    )
    set_up: str = Field(
        default="",
        description="shell, run once at build as its user, in its workdir, when /app is complete: fills its folders",
    )


class RecipeReply(Value):
    """Reply of the ``environment`` call: the literal files and, if any, one generator."""

    files: list[SourceFile] = Field(description="all literal files of the manifest, complete")
    generator: str = Field(
        default="",
        description="Python 3 standard-library script run once at build with working directory /app; it writes every "
        "generated file of the manifest; empty when there is none",
    )
    rows: list[DiscriminatorRow] = Field(default=[], description="at least one for every discriminator")
    services: list[Service] = Field(default=[], description="exactly the services of the manifest, in order of start")


class FileEdit(Value):
    """Replace ``find`` (must occur exactly once) by ``replace`` in one file."""

    path: str = Field(
        description="relative to /app; 'generator' for the generator; a new path, with empty find, adds a file"
    )
    find: str = Field(description="text that occurs exactly once in the file; empty: the whole file is replaced")
    replace: str = Field(description="the text that takes its place")


class EnvironmentRepairReply(Value):
    """Reply of the ``repair_environment`` call: edits only, never a new start."""

    diagnosis: str = Field(description="one or two sentences: the cause, quoting the evidence")
    edits: list[FileEdit] = Field(default=[], description="applied in order")
    remove_files: list[str] = Field(default=[], description="literal files to leave out")
    add_packages: list[str] = []
    remove_packages: list[str] = []
    rows: list[DiscriminatorRow] = Field(default=[], description="only for discriminators whose place or mark changes")
    put_services: list[Service] = Field(
        default=[], description="whole new versions of services, by name; one that is missing is added"
    )
    remove_services: list[str] = Field(default=[], description="names of services that the manifest does not plan")


class Recipe(Sparse):
    """Everything from which the environment image is built. The Dockerfile is rendered, never written."""

    SPARSE: ClassVar[frozenset[str]] = frozenset({"services"})

    packages: tuple[str, ...]
    rules_file: str
    files: tuple[SourceFile, ...]
    generator: str = ""
    rows: tuple[DiscriminatorRow, ...] = ()
    services: tuple[Service, ...] = ()


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
    """One path of the captured initial state.

    ``path`` is absolute, ``mode`` octal (``0644``), ``size`` in bytes. ``content`` is the text up to the preview
    limit; ``encoding`` is a Python codec name or ``binary``; ``newline`` is lf, crlf, mixed or none. ``rows``
    maps discriminator ids to the line where each stands.
    """

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
    inner: dict[str, Any] = Field(default={}, description="columns, members or tables of structured files")
    rows: dict[str, str] = {}


class RunningService(Value):
    """What was seen of a service in a container that was started once: open TCP ports, names of its processes."""

    name: str
    ports: tuple[int, ...]
    processes: tuple[str, ...]


class E0(Sparse):
    """The executable initial state, read through the engine (architecture: shared by I, S and V).

    ``package_versions`` are those of all installed Debian packages, ``snapshot_date`` the day (UTC) of the
    archive's snapshot that they come from: that of the last installation.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"services"})

    workdir: str
    files: tuple[E0File, ...]
    tools: tuple[str, ...]
    tool_versions: dict[str, str] = {}
    package_versions: dict[str, str] = {}
    snapshot_date: str = ""
    env: dict[str, str] = {}
    user: str = ""
    image_id: str = ""
    base_image: str = ""
    services: tuple[RunningService, ...] = ()

    def view(self, budget: int = 9_000, *, leave_out: str = "") -> dict[str, Any]:
        """What prompts show, as JSON data: at most ``budget`` characters of content, the longest cut first.

        Of the file at path ``leave_out`` everything but its content is shown.
        The cuts depend on contents alone, so that machine facts (versions, sizes) never move them.
        """
        shown = [f for f in self.files if f.type != "dir" or f.path == self.workdir or self._is_empty(f)]
        kept = [_without_content(f) if f.path == leave_out else f for f in shown[:VIEW_FILES]]
        limit = _fair_limit([len(f.content) for f in kept], budget)
        share = max(400, FACTS // max(1, sum(bool(f.inner) and _cut(f, limit) for f in kept)))
        running = {"services": [service.model_dump(mode="json") for service in self.services]} if self.services else {}
        return {
            **running,
            "workdir": self.workdir,
            "env": self.env,
            "tools": list(self.tools),
            "tool_versions": self.tool_versions,
            "files": [_file_view(f, limit, share) for f in kept],
            "files_left_out": len(shown) - len(kept),
        }

    def _is_empty(self, folder: E0File) -> bool:
        return not any(f.path.startswith(folder.path + "/") for f in self.files)


def _fair_limit(lengths: list[int], budget: int) -> int:
    """The largest cap under which all lengths together stay within ``budget``."""
    left = budget
    for done, length in enumerate(sorted(lengths)):
        share = left // (len(lengths) - done)
        if length > share:
            return share
        left -= length
    return max(lengths, default=0)


def _without_content(file: E0File) -> E0File:
    return file.model_copy(update={"content": "", "inner": {}, "truncated": True})


def _cut(file: E0File, limit: int) -> bool:
    """Whether the view does not show the whole content, so that facts about it are needed."""
    return file.encoding == "binary" or file.truncated or len(file.content) > limit


def _file_view(file: E0File, limit: int, share: int) -> dict[str, Any]:
    data = file.model_dump(mode="json", exclude={"sha256", "uid", "gid", "content", "truncated"})
    if file.type == "dir":
        return {"path": file.path, "type": "dir", "mode": file.mode}
    data = {name: value for name, value in data.items() if value not in ("", {}, [])}
    data["content"] = shorten(file.content, limit)
    data["content_is_complete"] = not _cut(file, limit)
    if "inner" in data:
        data["inner"] = _facts_within(file.inner, share) if _cut(file, limit) else _facts_within(file.inner, 400)
    return data


def _facts_within(inner: dict[str, Any], share: int) -> dict[str, Any]:
    """``inner`` in about ``share`` characters: texts shortened, then the last columns, tables or members left out."""
    facts = {name: shorten(v, share // 3) if isinstance(v, str) else v for name, v in inner.items()}
    left_out = 0
    for name in ("columns", "tables", "members"):
        entries = facts.get(name)
        while entries and len(to_json(facts)) > share:
            entries = dict(list(entries.items())[:-1]) if isinstance(entries, dict) else entries[:-1]
            facts[name] = entries
            left_out += 1
    return {**facts, "entries_left_out": left_out} if left_out else facts


def shorten(text: str, limit: int) -> str:
    """Head and tail of ``text`` around a note, in about ``limit`` characters."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    end = text[len(text) - tail :]
    return f"{text[:head]}\n[... {len(text) - head - tail} characters left out ...]\n{end}"


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
