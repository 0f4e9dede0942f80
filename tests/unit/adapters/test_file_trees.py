"""Folders that hostile code wrote into, read and removed by this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from facet_dagster.adapters.file_trees import read_tree, remove_tree, tree_size, write_tree
from facet_dagster.domain.archive import ArchiveError, ArchiveTooLarge, Member, pack_members, unpack
from facet_dagster.domain.trial import Limits

LIMITS = Limits(archive=1000, entries=20)


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    uid, gid = os.geteuid(), os.getegid()
    members = {
        "d": Member("dir", 0o555, uid, gid, 5),
        "d/-rf": Member("file", 0o640, uid, gid, 6, b"\xff\x00"),
        "d/new\nline": Member("file", 0o644, uid, gid, 7),
        "d/\udcff": Member("file", 0o4755, uid, gid, 8, b"x"),
        "up": Member("link", 0o777, uid, gid, 9, link="../../etc/passwd"),
    }
    write_tree(tmp_path, members)
    found = unpack(read_tree(tmp_path, LIMITS, name="t"))
    assert {path.removeprefix("t/"): m for path, m in found.items() if path != "t"} == members


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    members = {"a": Member("link", link=str(outside)), "a/b": Member("file", data=b"x")}
    with pytest.raises(ArchiveError, match="below 'a', which is no folder"):
        write_tree(inside, members)
    assert list(outside.iterdir()) == []


def test_links_pipes_and_sockets_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "folder").symlink_to("/etc")
    os.mkfifo(folder / "pipe")
    found = unpack(read_tree(folder, LIMITS, name="out"))
    assert {path: m.link for path, m in found.items()} == {
        "out": "",
        "out/link": str(tmp_path / "secret"),
        "out/folder": "/etc",
    }


@pytest.mark.parametrize("kind", ["sparse", "many"])
def test_too_much_is_refused_before_it_is_read(tmp_path: Path, kind: str) -> None:
    if kind == "sparse":
        with (tmp_path / "giant").open("wb") as file:
            file.truncate(50 * 2**40 // 1024)
    else:
        for number in range(30):
            (tmp_path / str(number)).touch()
    with pytest.raises(ArchiveTooLarge):
        read_tree(tmp_path, LIMITS, name="t")


def test_folders_nested_deeper_than_python_descends_are_bounded_and_removed(tmp_path: Path) -> None:
    top = tmp_path / "deep"
    top.mkdir()
    at = os.open(top, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("dd", dir_fd=at)
        deeper = os.open("dd", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = deeper
    os.close(at)
    with pytest.raises(ArchiveTooLarge):
        read_tree(top, Limits(), name="t")
    with pytest.raises(ArchiveTooLarge):
        tree_size(top, 10**9)
    remove_tree(top)
    assert not top.exists()


def test_counting_stops_when_it_is_too_much(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / str(number)).write_bytes(b"x" * 4096)
    assert tree_size(tmp_path, 10**9) >= 40_960
    assert 4096 < tree_size(tmp_path, 4096) < 40_960


def test_an_equal_tree_is_an_equal_archive(tmp_path: Path) -> None:
    uid, gid = os.geteuid(), os.getegid()
    members = {"b": Member("dir", 0o755, uid, gid), "b/c": Member("file", 0o644, uid, gid, data=b"1")}
    write_tree(tmp_path, members)
    os.utime(tmp_path, (0, 0))
    tmp_path.chmod(0o700)
    top = Member("dir", 0o700, uid, gid, 0)
    assert read_tree(tmp_path, LIMITS, name="a") == pack_members(
        {"a": top, **{f"a/{path}": m for path, m in members.items()}}
    )
