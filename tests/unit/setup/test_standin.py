"""A stand-in's recipe decides its cache key, its build command and its labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from facet_dagster.setup.paths import Places
from facet_dagster.setup.standin import Recipe, build_tar, mmdebstrap_argv, recipe, scratch_folder

NAME = "python:3.11-slim-bookworm"
SOURCES = ("deb http://m.example/debian bookworm main",)


def test_the_key_follows_suite_mirror_and_root_certificates(tmp_path: Path) -> None:
    root = tmp_path / "root.crt"
    root.write_text("one")
    base = Recipe(NAME, "bookworm", SOURCES)
    trusted = Recipe(NAME, "bookworm", SOURCES, (root,))
    before = trusted.key
    others = {Recipe(NAME, "trixie", SOURCES).key, Recipe(NAME, "bookworm", ("deb http://n.example x main",)).key}
    assert len({base.key, before, *others}) == 4
    root.write_text("two")
    assert trusted.key != before
    assert base.tar(tmp_path) == tmp_path / "base-images" / f"bookworm-{base.key}.tar"


def test_the_image_is_labelled_as_a_stand_in_of_its_public_name() -> None:
    changes = Recipe(NAME, "bookworm", SOURCES).changes()
    assert f"LABEL facet.standin={NAME}" in changes
    assert "LABEL facet.base=1" in changes
    assert not [line for line in changes if "PIP_CERT" in line]


def test_extra_roots_are_copied_trusted_and_named_to_every_client(tmp_path: Path) -> None:
    (tmp_path / "company.crt").write_text("x")
    (tmp_path / "notes.txt").write_text("x")
    wanted = recipe(NAME, "bookworm", {"FACET_DEBIAN_MIRROR": "http://m.example/debian"}, tmp_path)
    assert wanted.roots == (tmp_path / "company.crt",)
    assert "ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt" in wanted.changes()
    argv = mmdebstrap_argv(wanted, tmp_path / "out.part")
    copy = argv.index(f"--customize-hook=copy-in '{tmp_path / 'company.crt'}' /usr/local/share/ca-certificates")
    assert "update-ca-certificates" in argv[copy + 1]
    assert argv[argv.index("bookworm") + 1] == str(tmp_path / "out.part")
    assert argv[-1] == "deb http://m.example/debian bookworm-updates main"


def test_a_cached_tar_is_used_as_it_is(tmp_path: Path) -> None:
    places = Places(tmp_path, tmp_path / "home", tmp_path / "cache")
    wanted = Recipe(NAME, "bookworm", SOURCES)
    tar = wanted.tar(places.cache)
    tar.parent.mkdir(parents=True)
    tar.write_bytes(b"cached")
    said: list[str] = []
    assert build_tar(wanted, places, said.append) == tar
    assert said == []


@pytest.mark.parametrize(
    ("line", "in_memory"),
    [
        ("tmpfs {} tmpfs rw,relatime 0 0", True),
        ("tmpfs {} tmpfs rw,nosuid,nodev,noexec 0 0", False),
        ("tmpfs /other tmpfs rw 0 0", False),
    ],
)
def test_memory_is_the_scratch_folder_only_where_a_root_file_system_can_live(
    tmp_path: Path, line: str, *, in_memory: bool
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(line.format(tmp_path) + "\n")
    expected = tmp_path if in_memory else tmp_path / "home" / "tmp"
    assert scratch_folder(tmp_path, tmp_path / "home", mounts) == expected
    assert expected.is_dir()
