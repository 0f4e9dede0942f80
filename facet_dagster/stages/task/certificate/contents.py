"""The texts that a file holds, also inside archives and Git's own files. Bounded; nothing is run or written."""

from __future__ import annotations

import io
import tarfile
import zlib
from collections.abc import Iterator

from facet_dagster.domain.formats import MEMBERS, OPEN_LIMIT, decode, opened, searchable
from facet_dagster.domain.git_objects import loose, packed

DEPTH = 3


def texts_in(path: str, data: bytes, depth: int = DEPTH) -> Iterator[str]:
    """Every text of the file at ``path``, that of its members included. Raises UnreadablePack for Git's packs."""
    if _in_git(path) and path.endswith(".pack"):
        for content in packed(data):
            yield decode(content)[1] or content.decode("utf-8", "replace")
        return
    if _in_git(path) and (found := loose(data)) is not None:
        yield found.decode("utf-8", "replace")
        return
    unpacked = opened(data)
    if unpacked and depth:
        yield from texts_in(path, unpacked[1], depth - 1)
        return
    if data[257:262] == b"ustar" and depth:
        yield from _tar_texts(data, depth)
        return
    yield from searchable(data[:OPEN_LIMIT] if not data.startswith(b"PK") else data)


def _in_git(path: str) -> bool:
    return "/objects/" in path


def _tar_texts(data: bytes, depth: int) -> Iterator[str]:
    left = OPEN_LIMIT
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
            for count, info in enumerate(tar):
                stream = tar.extractfile(info) if info.isreg() else None
                if count >= MEMBERS or stream is None:
                    continue
                content = stream.read(left)
                left -= len(content)
                yield from texts_in(info.name, content, depth - 1)
    except (tarfile.TarError, OSError, EOFError, ValueError, zlib.error):
        return
