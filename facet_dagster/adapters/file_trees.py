"""Archives as folders of this machine and back. What a folder holds may have been written by hostile code."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from facet_dagster.domain.archive import ArchiveError, ArchiveTooLarge, Member, check_budget, pack_members
from facet_dagster.domain.trial import Limits

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write_tree(folder: Path, members: Mapping[str, Member]) -> None:
    """Write ``members`` (relative path -> Member) below the empty ``folder``, with owners, modes and times.

    Raises ArchiveError when a member lies below one that is no folder: nothing is ever written through a link.
    """
    for path in members:
        _make_parents(folder, path, members)
    for path, member in members.items():
        _write(folder / path, member)
    # Afterwards and from the bottom up: a folder may be read-only, and writing into it changes its time.
    for path in sorted(members, reverse=True):
        if members[path].type == "dir":
            _attributes(folder / path, members[path])


def read_tree(folder: Path, limits: Limits, *, name: str) -> bytes:
    """Archive of ``folder`` as ``name``: regular files, folders and links; nothing is followed, the rest left out.

    Raises ArchiveTooLarge over ``limits.archive`` bytes or ``limits.entries``.
    """
    members = {name: _member(str(folder), folder.lstat())}
    used = 0
    for count, (path, status) in enumerate(_walk(folder), start=2):
        used += status.st_size if stat.S_ISREG(status.st_mode) else 0
        check_budget(limits, count, used)
        members[f"{name}/{os.path.relpath(path, folder)}"] = _member(path, status)
    return pack_members({path: member for path, member in members.items() if member})


def tree_size(folder: Path, most: int) -> int:
    """Bytes on disk below ``folder``; stops counting over ``most``."""
    total = 0
    for _, status in _walk(folder):
        total += status.st_blocks * 512
        if total > most:
            break
    return total


def remove_tree(folder: Path) -> None:
    """Remove it, however deep: hostile code can nest more folders than Python can descend."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except (OSError, RecursionError):
        subprocess.run(["rm", "-rf", "--one-file-system", "--", str(folder)], check=False, capture_output=True)


def _make_parents(folder: Path, path: str, members: Mapping[str, Member]) -> None:
    parts = path.split("/")[:-1]
    for n in range(1, len(parts) + 1):
        above = "/".join(parts[:n])
        if above in members and members[above].type != "dir":
            raise ArchiveError(f"Path {path!r} lies below {above!r}, which is no folder")
        (folder / above).mkdir(mode=0o755, exist_ok=True)


def _write(path: Path, member: Member) -> None:
    if member.type == "dir":
        path.mkdir(mode=0o700, exist_ok=True)
    elif member.type == "link":
        os.symlink(member.link, path)
        os.lchown(path, member.uid, member.gid)
        os.utime(path, (member.mtime, member.mtime), follow_symlinks=False)
    else:
        file = os.open(path, _WRITE, 0o600)
        with os.fdopen(file, "wb") as stream:
            stream.write(member.data)
        _attributes(path, member)


def _attributes(path: Path, member: Member) -> None:
    os.chown(path, member.uid, member.gid)
    path.chmod(member.mode & 0o7777)
    os.utime(path, (member.mtime, member.mtime))


def _walk(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Path and lstat of everything below; a path that is too long for the system is an ArchiveTooLarge."""
    todo = [str(folder)]
    while todo:
        try:
            with os.scandir(todo.pop()) as entries:
                for entry in entries:
                    yield entry.path, entry.stat(follow_symlinks=False)
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
        except FileNotFoundError:
            continue  # it is still being written, or was removed while we looked
        except OSError as error:
            raise ArchiveTooLarge(f"A path is too long: {error.strerror}") from error


def _member(path: str, status: os.stat_result) -> Member | None:
    """None for devices and the like, and for what changed while we looked."""
    attributes = (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, int(status.st_mtime))
    if stat.S_ISDIR(status.st_mode):
        return Member("dir", *attributes)
    try:
        if stat.S_ISLNK(status.st_mode):
            return Member("link", *attributes, link=os.readlink(path))
        if stat.S_ISREG(status.st_mode):
            with os.fdopen(os.open(path, _READ), "rb") as stream:
                return Member("file", *attributes, data=stream.read(status.st_size))
    except OSError:
        return None
    return None
