from __future__ import annotations

import io
import tarfile

import pytest

from facet_dagster.domain.archive import (
    ArchiveError,
    ArchiveTooLarge,
    Member,
    checked,
    pack,
    placed,
    rebase,
    sanitise,
    subtree,
    unpack,
)
from facet_dagster.domain.trial import Limits


def raw(*infos: tuple[str, bytes, bytes, str], tar_format: int = tarfile.PAX_FORMAT) -> bytes:
    """An archive as a hostile program might shape it: (name, type, data, link target)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tar_format) as tar:
        for name, kind, data, link in infos:
            info = tarfile.TarInfo(name)
            info.type, info.size, info.linkname, info.mtime = kind, len(data), link, 12.5
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def test_packing_twice_gives_the_same_bytes_whatever_the_order() -> None:
    assert pack({"b": b"2", "a/x": b"1"}) == pack({"a/x": b"1", "b": b"2"})


def test_packing_starts_with_an_ordinary_header() -> None:
    assert pack({"Dockerfile": b"FROM x\n"}).startswith(b"Dockerfile\0")


def test_pack_then_unpack_keeps_content_mode_and_owner() -> None:
    found = unpack(pack({"run.sh": b"x", "d/t": b""}, executable={"run.sh"}, folders=["out"], uid=7, gid=8))
    assert found == {
        "run.sh": Member("file", 0o755, 7, 8, data=b"x"),
        "d/t": Member("file", 0o644, 7, 8),
        "out": Member("dir", 0o755, 7, 8),
    }


@pytest.mark.parametrize(
    "name", ["-rf", "a\nb", "ü/ß", "x" * 250, "\udcff.bin", "with space", "d/" + "y" * 120 + "/" + "z" * 120]
)
def test_odd_names_survive(name: str) -> None:
    assert set(unpack(pack({name: b"1"}))) == {name}


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", "", ".", "a\0b", "x" * 300, "ab/" * 2000 + "x"])
def test_names_that_leave_the_folder_are_refused(name: str) -> None:
    with pytest.raises(ArchiveError, match="relative path"):
        pack({name: b""})


@pytest.mark.parametrize(("name", "normal"), [("a/b", "a/b"), ("./a//b/", "a/b"), ("a/./b", "a/b")])
def test_names_have_one_normal_form(name: str, normal: str) -> None:
    assert checked(name) == normal


@pytest.mark.parametrize("kind", [tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE])
def test_sanitise_drops_devices_and_fifos(kind: bytes) -> None:
    hostile = raw(("app/bad", kind, b"", ""), ("app/good", tarfile.REGTYPE, b"ok", ""))
    assert set(unpack(sanitise(hostile, Limits()))) == {"app/good"}


def test_sanitise_turns_a_hard_link_into_a_copy() -> None:
    hostile = raw(("app/a", tarfile.REGTYPE, b"same", ""), ("app/b", tarfile.LNKTYPE, b"", "app/a"))
    assert unpack(sanitise(hostile, Limits()))["app/b"].data == b"same"


def test_sanitise_drops_a_hard_link_to_something_outside() -> None:
    assert unpack(sanitise(raw(("app/b", tarfile.LNKTYPE, b"", "etc/shadow")), Limits())) == {}


def test_sanitise_keeps_a_symbolic_link_as_data() -> None:
    found = unpack(sanitise(raw(("app/l", tarfile.SYMTYPE, b"", "/etc/passwd")), Limits()))
    assert (found["app/l"].type, found["app/l"].link, found["app/l"].data) == ("link", "/etc/passwd", b"")


def test_sanitise_drops_names_that_climb_and_roots_absolute_ones() -> None:
    hostile = raw(("../up", tarfile.REGTYPE, b"1", ""), ("/abs", tarfile.REGTYPE, b"2", ""))
    assert {path: m.data for path, m in unpack(sanitise(hostile, Limits())).items()} == {"abs": b"2"}


def test_sanitise_counts_each_hard_link_as_its_whole_content() -> None:
    links = [(f"l{n}", tarfile.LNKTYPE, b"", "a") for n in range(10)]
    with pytest.raises(ArchiveTooLarge):
        sanitise(raw(("a", tarfile.REGTYPE, b"x" * 100, ""), *links), Limits(archive=500))


@pytest.mark.parametrize("limits", [Limits(archive=10), Limits(entries=1)])
def test_sanitise_refuses_more_than_the_limits(limits: Limits) -> None:
    with pytest.raises(ArchiveTooLarge, match="More than"):
        sanitise(pack({"a": b"123456", "b": b"123456"}), limits)


def test_sanitise_refuses_a_giant_from_its_header_alone() -> None:
    info = tarfile.TarInfo("app/sparse")
    info.size = 50 * 1024**3
    with pytest.raises(ArchiveTooLarge):
        sanitise(io.BytesIO(info.tobuf(tarfile.GNU_FORMAT)), Limits())


def test_sanitise_is_idempotent() -> None:
    once = sanitise(raw(("app/a", tarfile.REGTYPE, b"1", ""), ("app", tarfile.DIRTYPE, b"", "")), Limits())
    assert sanitise(once, Limits()) == once


@pytest.mark.parametrize("damaged", [b"no tar at all" * 100, pack({"a": b"x" * 5000})[:2000]])
def test_a_damaged_archive_is_an_error(damaged: bytes) -> None:
    with pytest.raises(ArchiveError, match="damaged"):
        unpack(damaged)


def test_rebase_moves_a_folder_and_leaves_the_rest() -> None:
    moved = rebase(pack({"app/a": b"", "application": b""}, folders=["app"]), "app", "work/in")
    assert set(unpack(moved)) == {"work/in", "work/in/a", "application"}


def test_rebase_of_the_root_moves_everything() -> None:
    assert set(unpack(rebase(pack({"a": b"", "b/c": b""}), "", "x"))) == {"x/a", "x/b/c"}


def test_subtree_keeps_only_what_is_below() -> None:
    assert set(unpack(subtree(pack({"app/d/x": b"", "app/e": b""}, folders=["app/d"]), "app/d"))) == {"x"}


@pytest.mark.parametrize(("target", "name"), [("/", "a/b"), ("/app", "app/a/b"), ("/x/y/", "x/y/a/b")])
def test_members_are_placed_below_their_target(target: str, name: str) -> None:
    assert set(placed(pack({"a/b": b""}), target)) == {name}


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x"])
def test_placing_refuses_unsafe_names(name: str) -> None:
    with pytest.raises(ArchiveError):
        placed(raw((name, tarfile.REGTYPE, b"", "")), "/app")


def test_placing_skips_the_entry_of_the_root_itself() -> None:
    tar = raw(("./", tarfile.DIRTYPE, b"", ""), ("./a", tarfile.REGTYPE, b"", ""))
    assert set(placed(tar, "/app")) == {"app/a"}


@pytest.mark.parametrize("paths", [["a", "a/b"], ["a", "./a"]])
def test_a_path_is_packed_once_and_is_a_file_or_a_folder(paths: list[str]) -> None:
    with pytest.raises(ArchiveError, match="name each path once"):
        pack(dict.fromkeys(paths, b""))
