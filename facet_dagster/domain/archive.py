"""Tar archives as values: what goes into a container and what comes back out of one.

What comes back was written by hostile code. ``sanitise`` keeps regular files, folders and symbolic
links under safe relative names, and nothing else; links are data here, never followed.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import IO, Literal

from facet_dagster.domain.trial import Limits
from facet_dagster.errors import FacetError

# 2024-01-01: a fixed time makes equal content equal bytes, and the initial files of a task have it.
EPOCH = 1_704_067_200
_TYPES: dict[Literal["file", "dir", "link"], bytes] = {
    "file": tarfile.REGTYPE,
    "dir": tarfile.DIRTYPE,
    "link": tarfile.SYMTYPE,
}


class ArchiveError(FacetError):
    """The bytes are no archive, or a name in it would leave its folder."""


class ArchiveTooLarge(ArchiveError):
    """More bytes or more entries than the limits allow."""


@dataclass(frozen=True, slots=True)
class Member:
    """One entry. ``mode`` holds the permission bits, ``size`` is len(data), ``link`` a symbolic link's target."""

    type: Literal["file", "dir", "link"]
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    mtime: int = EPOCH
    data: bytes = b""
    link: str = ""

    @property
    def size(self) -> int:
        return len(self.data)


def pack(
    files: Mapping[str, bytes],
    *,
    executable: Iterable[str] = (),
    folders: Iterable[str] = (),
    uid: int = 0,
    gid: int = 0,
) -> bytes:
    """An archive of ``files`` (relative path -> bytes), the same bytes for the same arguments.

    Paths in ``executable`` get mode 755, others 644; ``folders`` are made with mode 755. Parent folders
    that are not listed are left to whoever unpacks, so that existing ones keep their owner and mode.
    Raises ArchiveError on an absolute path, one with ``..``, or one that is both file and folder.
    """
    runnable = frozenset(executable)
    members = {checked(path): Member("dir", 0o755, uid, gid) for path in folders}
    for path, data in files.items():
        if checked(path) in members or any(parent in files for parent in _parents(path)):
            raise ArchiveError(f"Path {path!r} is a file and a folder, or named twice; name each path once")
        members[checked(path)] = Member("file", 0o755 if path in runnable else 0o644, uid, gid, data=data)
    return pack_members(members)


def pack_members(members: Mapping[str, Member]) -> bytes:
    """An archive of ``members`` (relative path -> Member), sorted by path. The inverse of ``unpack``."""
    buffer = io.BytesIO()
    # GNU format: a leading PAX header makes BuildKit take the whole archive for a Dockerfile.
    with tarfile.open(
        fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT, encoding="utf-8", errors="surrogateescape"
    ) as tar:
        for path in sorted(members):
            tar.addfile(_header(path, members[path]), io.BytesIO(members[path].data))
    return buffer.getvalue()


def folders_of(files: Iterable[str]) -> frozenset[str]:
    """Every folder that one of ``files`` (relative paths) is in. Raises ArchiveError on a path that is unsafe."""
    return frozenset(folder for path in files for folder in _parents(path))


def unpack(tar: bytes) -> dict[str, Member]:
    """Path -> Member of every file, folder and symbolic link. Raises ArchiveError when damaged."""
    return _members(io.BytesIO(tar), None)


def sanitise(tar: bytes | IO[bytes], limits: Limits) -> bytes:
    """The safe part of an archive, within ``limits.archive`` bytes of file content and ``limits.entries``.

    Devices, FIFOs and unsafe names are dropped; hard links become copies. Raises ArchiveTooLarge as soon
    as a header promises too much, without reading on.
    """
    stream = io.BytesIO(tar) if isinstance(tar, bytes) else tar
    return pack_members(_members(stream, limits))


def rebase(tar: bytes, old: str, new: str) -> bytes:
    """Rename folder or file ``old`` to ``new``; entries outside ``old`` stay. Empty means the archive's root."""
    source, target = _prefix(old), _prefix(new)

    def renamed(path: str) -> str:
        inside = path == source.rstrip("/") or path.startswith(source)
        return (target + path[len(source) :]).rstrip("/") if inside else path

    return _renamed(tar, renamed)


def subtree(tar: bytes, folder: str) -> bytes:
    """Only what is below ``folder``, with names relative to it; the folder's own entry is left out."""
    prefix = _prefix(folder)
    return _renamed(tar, lambda path: path[len(prefix) :] if path.startswith(prefix) else None)


def placed(tar: bytes, target: str) -> dict[str, Member]:
    """The archive's members under the names they get below absolute ``target``, relative to the root.

    For what is about to be written into a container: an unsafe name raises ArchiveError where
    ``unpack`` would drop it.
    """
    folder = _prefix(target)
    members = _members(io.BytesIO(tar), None, _root_or_checked)
    return {folder + path: member for path, member in members.items()}


def checked(path: str) -> str:
    """``path`` in its normal form. Raises ArchiveError when absolute, empty, too long, with ``..`` or a NUL."""
    safe = _normal(path)
    if not safe or path.startswith("/") or _too_long(safe):
        raise ArchiveError(f"Path {path!r} is not a relative path inside its folder; use one without '..'")
    return safe


def _too_long(path: str) -> bool:
    sizes = [len(part.encode(errors="surrogateescape")) for part in path.split("/")]
    return max(sizes) > 255 or sum(sizes) + len(sizes) > 4096


def _normal(name: str) -> str | None:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in name:
        return None
    return "/".join(parts)


def _parents(path: str) -> list[str]:
    parts = checked(path).split("/")
    return ["/".join(parts[:n]) for n in range(1, len(parts))]


def _prefix(path: str) -> str:
    return checked(path.strip("/")) + "/" if path.strip("/") else ""


def _renamed(tar: bytes, rename: Callable[[str], str | None]) -> bytes:
    pairs = ((rename(path), member) for path, member in unpack(tar).items())
    return pack_members({path: member for path, member in pairs if path})


def _header(path: str, member: Member) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path)
    info.type = _TYPES[member.type]
    info.mode, info.uid, info.gid, info.mtime = member.mode, member.uid, member.gid, member.mtime
    info.size, info.linkname = len(member.data), member.link
    return info


def _root_or_checked(name: str) -> str:
    return "" if name in (".", "./") else checked(name)


def _members(
    stream: IO[bytes], limits: Limits | None, name_of: Callable[[str], str | None] = _normal
) -> dict[str, Member]:
    """Read to the end. ``name_of`` gives a name's normal form, None to drop the entry, or raises."""
    found: dict[str, Member] = {}
    used = 0
    try:
        with tarfile.open(fileobj=stream, mode="r|", encoding="utf-8", errors="surrogateescape") as tar:
            for count, info in enumerate(tar, start=1):
                path = name_of(info.name)
                original = found.get(_normal(info.linkname) or "") if info.islnk() else None
                used += original.size if original else info.size
                if limits:
                    check_budget(limits, count, used)
                member = _member(tar, info, original)
                if path and member:
                    found[path] = member
    except (tarfile.TarError, EOFError) as error:
        raise ArchiveError(f"The archive is damaged: {error}") from error
    return found


def check_budget(limits: Limits, entries: int, size: int) -> None:
    """Raises ArchiveTooLarge when so many ``entries``, or ``size`` bytes of file content, are too much."""
    if entries > limits.entries:
        raise ArchiveTooLarge(f"More than {limits.entries} entries")
    if size > limits.archive:
        raise ArchiveTooLarge(f"More than {limits.archive} bytes")


def _member(tar: tarfile.TarFile, info: tarfile.TarInfo, original: Member | None) -> Member | None:
    attributes = (info.mode & 0o7777, info.uid, info.gid, int(info.mtime))
    if original is not None:
        return original
    if info.isreg():
        content = tar.extractfile(info)
        return Member("file", *attributes, data=content.read() if content else b"")
    if info.isdir():
        return Member("dir", *attributes)
    if info.issym():
        return Member("link", *attributes, link=info.linkname)
    return None
