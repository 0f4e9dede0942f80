"""Rendered Dockerfiles and the build context."""

from __future__ import annotations

import pytest

from facet_dagster.domain.dockerfile import (
    codec,
    environment_dockerfile,
    environment_executables,
    environment_files,
    verifier_dockerfile,
)
from facet_dagster.domain.environment import ManifestReply, PlannedFile, Recipe, SourceFile

BASE = "python:3.11-slim-bookworm"
GOLDEN = """\
FROM python:3.11-slim-bookworm AS toolchain
RUN apt-get update \\
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
asciinema bash ca-certificates passwd procps tmux tzdata \\
 && rm -rf /var/cache/apt/*.bin /var/lib/apt/lists/* \\
 && useradd --create-home --shell /bin/bash agent \\
 && install --directory --owner=agent --group=agent /app
STOPSIGNAL SIGKILL

FROM toolchain AS packages
RUN apt-get update \\
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends jq sqlite3 \\
 && rm -rf /var/cache/apt/*.bin /var/lib/apt/lists/*

FROM toolchain AS fixtures
COPY build/generate.py /build/generate.py
USER agent
WORKDIR /app
COPY --chown=agent:agent app/ /app/
RUN ulimit -v 4194304; ulimit -f 4194304; PYTHONHASHSEED=0 LC_ALL=C.UTF-8 TZ=UTC python3 -s -P -B /build/generate.py \\
 && find /app -exec touch --no-dereference --date=2024-01-01T00:00:00Z {} +

FROM packages
COPY --from=fixtures --chown=agent:agent /app/ /app/
WORKDIR /app
"""


def plan(path: str = "data/a.csv", **more: object) -> PlannedFile:
    return PlannedFile.model_validate({"path": path, "purpose": "p", "how": "literal", "rows": 1, **more})


def manifest(*plans: PlannedFile) -> ManifestReply:
    filler = [plan(f"f{n}.txt") for n in range(3 - len(plans))]
    return ManifestReply(packages=[], rules_file="RULES.md", files=[*plans, *filler])


def recipe(*files: SourceFile, generator: str = "", packages: tuple[str, ...] = ()) -> Recipe:
    return Recipe(packages=packages, rules_file="RULES.md", files=files, generator=generator)


def test_the_environment_image_is_rendered_to_the_letter() -> None:
    assert environment_dockerfile(BASE, ["sqlite3", "jq"], has_generator=True) == GOLDEN


@pytest.mark.parametrize("path", ["Dockerfile", "data/Dockerfile", "build/generate.py", ".dockerignore"])
def test_no_file_of_a_recipe_takes_the_place_of_ours(path: str) -> None:
    """Whatever a file is called, its text is data below /app and no instruction of a build."""
    hostile = SourceFile(path=path, content="FROM debian:12\nRUN evil\n")
    plain = environment_files(recipe(generator="pass"), manifest(), BASE)
    files = environment_files(recipe(hostile, generator="pass"), manifest(), BASE)
    assert files == {**plain, f"app/{path}": hostile.content.encode()}


def test_without_packages_there_is_no_package_layer() -> None:
    text = environment_dockerfile(BASE, [], has_generator=True)
    assert "FROM toolchain AS packages\n\nFROM toolchain AS fixtures" in text
    assert text.count("apt-get install") == 1


def test_without_a_generator_nothing_of_build_is_copied() -> None:
    text = environment_dockerfile(BASE, ["jq"], has_generator=False)
    assert "build/" not in text
    assert text.endswith(
        "jq \\\n && rm -rf /var/cache/apt/*.bin /var/lib/apt/lists/*\n"
        "COPY --chown=agent:agent app/ /app/\nWORKDIR /app\n"
    ), "no step runs only to set times"
    assert "python3" not in text


def test_tool_chain_packages_are_not_installed_twice() -> None:
    assert "tmux" not in environment_dockerfile(BASE, ["tmux"], has_generator=False).split("STOPSIGNAL")[1]


def test_the_tool_chain_layer_is_the_same_in_every_image() -> None:
    texts = [
        environment_dockerfile(BASE, [], has_generator=False),
        environment_dockerfile(BASE, ["jq"], has_generator=True),
        verifier_dockerfile(BASE, ["bc"]),
    ]
    assert len({text.partition("STOPSIGNAL SIGKILL")[0] for text in texts}) == 1


def test_the_order_of_packages_does_not_matter() -> None:
    assert environment_dockerfile(BASE, ["b1", "a1"], has_generator=False) == environment_dockerfile(
        BASE, ["a1", "b1", "a1"], has_generator=False
    )


def test_the_verifier_image_holds_its_context_below_tests() -> None:
    text = verifier_dockerfile(BASE, ["jq"])
    assert "FROM toolchain\nRUN apt-get update" in text
    assert text.endswith("COPY . /tests/\nRUN chmod -R a+rX /tests && chmod a+x /tests/test.sh\nWORKDIR /tests\n")


def test_no_dockerfile_needs_a_buildkit_frontend() -> None:
    for text in (GOLDEN, verifier_dockerfile(BASE, [])):
        assert "# syntax" not in text
        assert "--mount" not in text


def test_the_context_holds_dockerfile_files_and_generator() -> None:
    files = environment_files(recipe(SourceFile(path="RULES.md", content="x"), generator="pass"), manifest(), BASE)
    assert sorted(files) == ["Dockerfile", "app/RULES.md", "build/generate.py"]
    assert b"generate.py" in files["Dockerfile"]


def test_a_recipe_without_generator_has_none_in_the_context() -> None:
    assert sorted(environment_files(recipe(SourceFile(path="a", content="x")), manifest(), BASE)) == [
        "Dockerfile",
        "app/a",
    ]


@pytest.mark.parametrize(
    ("encoding", "newline", "text", "stored"),
    [
        ("utf-8", "lf", "é\r\nb\n", "é\nb\n".encode()),
        ("utf-8", "crlf", "a\nb", b"a\r\nb"),
        ("utf-8", "crlf", "a\r\nb\n", b"a\r\nb\r\n"),
        ("utf-8", "mixed", "a\r\nb\n", b"a\r\nb\n"),
        ("windows-1252", "lf", "5 €\n", b"5 \x80\n"),
        ("iso-8859-1", "lf", "é\n", b"\xe9\n"),
        ("utf-8-sig", "lf", "a\n", b"\xef\xbb\xbfa\n"),
        ("binary", "none", "a\n", b"a\n"),
    ],
)
def test_literal_files_get_the_promised_encoding_and_line_ends(
    encoding: str, newline: str, text: str, stored: bytes
) -> None:
    planned = manifest(plan(encoding=encoding, newline=newline))
    files = environment_files(recipe(SourceFile(path="data/a.csv", content=text)), planned, BASE)
    assert files["app/data/a.csv"] == stored


def test_utf_16_files_begin_with_a_byte_order_mark() -> None:
    files = environment_files(
        recipe(SourceFile(path="data/a.csv", content="a\n")), manifest(plan(encoding="utf-16")), BASE
    )
    assert files["app/data/a.csv"][:2] in (b"\xff\xfe", b"\xfe\xff")


def test_files_outside_the_manifest_are_utf_8_as_they_are() -> None:
    files = environment_files(recipe(SourceFile(path="x", content="é\r\n")), manifest(), BASE)
    assert files["app/x"] == "é\r\n".encode()


def test_an_unknown_encoding_is_a_lookup_error() -> None:
    with pytest.raises(LookupError):
        codec("latin-47")


def test_executable_files_are_named_by_their_context_path() -> None:
    files = (SourceFile(path="bin/x.sh", content="", executable=True), SourceFile(path="b", content=""))
    assert environment_executables(recipe(*files)) == frozenset({"app/bin/x.sh"})


@pytest.mark.parametrize("encoding", ["base64", "hex", "zip", "rot13", "undefined", "idna-2", "a\x00b"])
def test_a_codec_of_no_text_is_unknown(encoding: str) -> None:
    with pytest.raises(LookupError):
        codec(encoding)
