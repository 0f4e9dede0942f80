"""A build context as the engine needs it: what is in it, what it needs from outside, its content tag. Pure."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace

from docker.utils.build import Pattern
from docker.utils.fnmatch import fnmatchcase

from facet_dagster.domain.archive import ArchiveError, ArchiveTooLarge
from facet_dagster.domain.ids import digest
from facet_dagster.domain.trial import Limits
from facet_dagster.ports import BuildContext

REPOSITORY = "facet-task"
_FROM = re.compile(r"^\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?\s*$", re.IGNORECASE)
_COPY_FROM = re.compile(r"^\s*COPY\s+(?:--\S+\s+)*?--from=(\S+)\s", re.IGNORECASE)
_RUN = re.compile(r"^\s*RUN\s+(?:--\S+\s+)*(.*)$", re.IGNORECASE | re.DOTALL)
_ARG = re.compile(r"^\s*ARG\s+(\w+)=(\S+)\s*$", re.IGNORECASE)
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_HEREDOC = re.compile(r"<<-?[\"']?(\w+)[\"']?")
_CONTINUED = re.compile(r"\\[ \t]*\r?\n(?:[ \t]*#[^\n]*\n)*")
# What the builder itself fetches, whatever network its steps have. A variable may stand for anything.
_FETCHES = re.compile(
    r"^[ \t]*(?:ADD[ \t].*(?:://|git@|\$).*|#[ \t]*(?:syntax|escape)[ \t]*=.*)$", re.IGNORECASE | re.MULTILINE
)
_IGNORE = ".dockerignore"
_DOCKERFILE = "Dockerfile"


def packable(context: BuildContext, limits: Limits) -> BuildContext:
    """The context without what its ``.dockerignore`` leaves out; that file itself stays behind, the Dockerfile never.

    The engine's builders read that file in different ways, or not at all. Raises ArchiveError, also when
    more than ``limits.entries`` files or ``limits.archive`` bytes are left.
    """
    kept = _not_ignored(context)
    if len(kept.files) > limits.entries:
        raise ArchiveTooLarge(f"The build context has {len(kept.files)} files; at most {limits.entries} are allowed")
    size = sum(len(data) for data in kept.files.values())
    if size > limits.archive:
        raise ArchiveTooLarge(f"The build context has {size} bytes; at most {limits.archive} are allowed")
    return kept


def _not_ignored(context: BuildContext) -> BuildContext:
    if _IGNORE not in context.files:
        return context
    lines = (line.strip() for line in context.files[_IGNORE].decode("utf-8-sig", errors="replace").splitlines())
    patterns = [Pattern(line) for line in lines if line and not line.startswith("#")]
    try:
        kept = {
            path: data
            for path, data in context.files.items()
            if path == _DOCKERFILE or (path != _IGNORE and not _is_ignored(path, patterns))
        }
    except re.error as error:
        raise ArchiveError(f"A pattern in {_IGNORE} is wrong ({error}): correct or remove it") from error
    return replace(context, files=kept)


def _is_ignored(path: str, patterns: list[Pattern]) -> bool:
    """The last pattern that fits the path, or a folder it is in, decides."""
    parts = path.split("/")
    names = ["/".join(parts[:n]) for n in range(1, len(parts) + 1)]
    fitting = [p for p in patterns if p.dirs and any(fnmatchcase(name, p.cleaned_pattern) for name in names)]
    return bool(fitting) and not fitting[-1].exclusion


def fetch_line(dockerfile: str) -> str | None:
    """The first line that has the builder fetch something itself, for builds that may not use the network."""
    joined = _CONTINUED.sub("", dockerfile)
    found = _FETCHES.search(joined) or _FETCHES.search(dockerfile)
    return found[0].strip() if found else None


def run_commands(dockerfile: str) -> frozenset[str]:
    """The commands of the RUN lines, without blanks."""
    lines = (_RUN.match(line) for line in _instructions(dockerfile))
    return frozenset("".join(_script(line[1]).split()) for line in lines if line)


def _script(command: str) -> str:
    """A command as the program gets it; the JSON form as its words."""
    if command.lstrip().startswith("["):
        try:
            return "".join(str(word) for word in json.loads(command))
        except ValueError:
            return command
    return command


def external_bases(dockerfile: str) -> tuple[str, ...]:
    """Images that FROM and COPY need from outside, in order, once each; stages of the file and ``scratch`` are not."""
    stages: set[str] = {"scratch"}
    arguments: dict[str, str] = {}
    bases: dict[str, None] = {}
    for line in _instructions(dockerfile):
        if argument := _ARG.match(line):
            arguments[argument[1]] = argument[2].strip("\"'")
        elif source := _FROM.match(line):
            image = _VARIABLE.sub(lambda m: arguments.get(m[1] or m[2], m[0]), source[1])
            if image.lower() not in stages:
                bases[image] = None
            if source[2]:
                stages.add(source[2].lower())
        elif (copied := _COPY_FROM.match(line)) and not copied[1].isdigit() and copied[1].lower() not in stages:
            bases[copied[1]] = None
    return tuple(bases)


def content_tag(context: BuildContext, base_ids: Mapping[str, str]) -> str:
    """``facet-task:<24 hex>`` of paths, bytes, executable bits, and the ids of the base images."""
    content = {
        "files": {path: digest(data) for path, data in context.files.items()},
        "executable": sorted(context.executable & set(context.files)),
        "bases": dict(base_ids),
    }
    return f"{REPOSITORY}:{digest(content)[:24]}"


def unshared_tag() -> str:
    """A tag of the same form that no content has."""
    return f"{REPOSITORY}:{uuid.uuid4().hex[:24]}"


def _instructions(dockerfile: str) -> Iterator[str]:
    """Logical lines: continued ones joined, comments and the bodies of here-documents left out."""
    lines = iter(dockerfile.splitlines())
    for line in lines:
        if line.lstrip().startswith("#"):
            continue
        logical = line
        while logical.rstrip().endswith("\\"):
            logical = logical.rstrip()[:-1] + " " + next((x for x in lines if not x.lstrip().startswith("#")), "")
        for end in _HEREDOC.findall(logical):
            for body in lines:
                if body.strip() == end:
                    break
        yield logical
