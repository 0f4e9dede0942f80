"""A build context as the engine needs it: its external base images, its content tag. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from facet_dagster.domain.ids import digest
from facet_dagster.ports import BuildContext

REPOSITORY = "facet-task"
_FROM = re.compile(r"^\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?\s*$", re.IGNORECASE)
_ARG = re.compile(r"^\s*ARG\s+(\w+)=(\S+)\s*$", re.IGNORECASE)
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_HEREDOC = re.compile(r"<<-?[\"']?(\w+)[\"']?")


def external_bases(dockerfile: str) -> tuple[str, ...]:
    """Images that FROM lines need from outside, in order, once each; stages of the file and ``scratch`` are not."""
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
    return tuple(bases)


def content_tag(context: BuildContext, base_ids: Mapping[str, str]) -> str:
    """``facet-task:<24 hex>`` of paths, bytes, executable bits, and the ids of the base images."""
    content = {
        "files": {path: digest(data) for path, data in context.files.items()},
        "executable": sorted(context.executable & set(context.files)),
        "bases": dict(base_ids),
    }
    return f"{REPOSITORY}:{digest(content)[:24]}"


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
