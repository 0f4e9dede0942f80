from __future__ import annotations

import pytest

from facet_dagster.adapters.docker_context import content_tag, external_bases, fetch_line, packable, run_commands
from facet_dagster.domain.archive import ArchiveError
from facet_dagster.domain.trial import Limits
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
        ("FROM a AS one\nCOPY --from=one x y\nCOPY --from=0 x y", ("a",)),
        ("FROM a\nCOPY --chown=1:1 --from=b x y", ("a", "b")),
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


def kept(ignore: str, *paths: str, limits: Limits | None = None) -> set[str]:
    context = BuildContext({".dockerignore": ignore.encode(), **dict.fromkeys(paths, b"12345")})
    return set(packable(context, limits or Limits()).files)


@pytest.mark.parametrize(
    ("ignore", "left_out"),
    [
        ("a", {"a"}),
        ("/a/", {"a"}),
        ("d", {"d/x", "d/e/x"}),
        ("d\n!d/x", {"d/e/x"}),
        ("!d/x\nd", {"d/x", "d/e/x"}),
        ("*/x", {"d/x"}),
        ("**/x", {"d/x", "d/e/x"}),
        ("**/e", {"d/e/x"}),
        ("A", set()),
        ("# a\n\n  a  ", {"a"}),
        ("\ufeffa", {"a"}),
        ("*", {"a", "d/x", "d/e/x"}),
    ],
)
def test_ignored_paths_are_those_of_docker_build(ignore: str, left_out: set[str]) -> None:
    paths = {"Dockerfile", "a", "d/x", "d/e/x"}
    assert kept(ignore, *paths) == paths - left_out


def test_what_is_ignored_counts_for_nothing() -> None:
    context = BuildContext({**FILES, ".dockerignore": b"*.log\n", "x.log": b"other every time"})
    assert tag(dict(packable(context, Limits()).files)) == tag()
    assert kept("big", "big", "a", limits=Limits(archive=5, entries=1)) == {"a"}


@pytest.mark.parametrize("limits", [Limits(entries=1), Limits(archive=9)])
def test_too_many_files_or_bytes_are_refused(limits: Limits) -> None:
    with pytest.raises(ArchiveError, match="at most"):
        kept("", "a", "b", limits=limits)


def test_a_pattern_that_cannot_be_read_is_said() -> None:
    with pytest.raises(ArchiveError, match="pattern"):
        kept("[z-a]", "a")


@pytest.mark.parametrize(
    "dockerfile", ["FROM a\nADD x /x\n", "FROM a\nRUN echo ADD http://x\n", "# a comment\nCOPY $X /x\n"]
)
def test_a_dockerfile_that_fetches_nothing_is_let_be(dockerfile: str) -> None:
    assert fetch_line(dockerfile) is None


def test_commands_are_those_of_run_lines() -> None:
    dockerfile = 'FROM a\nRUN --mount=type=tmpfs,target=/t a \\\n# no\n  && b\nrun ["c", "d\\n e"]\nCOPY f g\n'
    assert run_commands(dockerfile) == {"a&&b", "cde"}
