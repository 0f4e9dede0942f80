from __future__ import annotations

import pytest

from facet_dagster.adapters.docker_context import content_tag, external_bases
from facet_dagster.ports import BuildContext

FILES = {"Dockerfile": b"FROM base\n", "app/a": b"1"}


def tag(files: dict[str, bytes] = FILES, executable: frozenset[str] = frozenset(), base: str = "sha256:1") -> str:
    return content_tag(BuildContext(files, executable), {"base": base})


@pytest.mark.parametrize(
    ("dockerfile", "bases"),
    [
        ("FROM python:3.11", ("python:3.11",)),
        ("from python:3.11 as x\nFROM x\n", ("python:3.11",)),
        ("FROM a AS one\nFROM b\nCOPY --from=one /x /x", ("a", "b")),
        ("FROM --platform=linux/amd64 a", ("a",)),
        ("FROM scratch", ()),
        ("ARG V=3.11\nFROM python:${V}-slim", ("python:3.11-slim",)),
        ("ARG B=a\nFROM $B", ("a",)),
        ("FROM a\nFROM a", ("a",)),
        ("# FROM comment\nFROM a", ("a",)),
        ("FROM a\nRUN python3 -c '\\\nfrom x import y'", ("a",)),
        ("FROM a\nRUN cat <<EOF > /x\nFROM inside\nEOF\nFROM b", ("a", "b")),
        ("FROM \\\n  a", ("a",)),
        ("RUN true", ()),
        ("FROM a\nRUN true \\", ("a",)),
    ],
)
def test_external_bases_are_those_from_outside_the_file(dockerfile: str, bases: tuple[str, ...]) -> None:
    assert external_bases(dockerfile) == bases


def test_the_tag_is_short_and_stable() -> None:
    assert tag() == tag(dict(reversed(list(FILES.items()))))
    assert len(tag()) == len("facet-task:") + 24


@pytest.mark.parametrize(
    "other",
    [
        tag({**FILES, "app/a": b"2"}),
        tag({"Dockerfile": b"FROM base\n", "app/b": b"1"}),
        tag(executable=frozenset({"app/a"})),
        tag(base="sha256:2"),
    ],
)
def test_bytes_names_modes_and_the_base_make_another_tag(other: str) -> None:
    assert other != tag()


def test_an_executable_that_is_not_in_the_context_changes_nothing() -> None:
    assert tag(executable=frozenset({"absent"})) == tag()
