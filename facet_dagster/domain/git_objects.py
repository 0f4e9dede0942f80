"""What Git keeps of a repository: the contents of loose objects and of pack files. Hostile bytes, bounded, pure."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from facet_dagster.errors import FacetError

LIMIT = 4 * 1024 * 1024
OBJECTS = 20_000
_PIECE = 64 * 1024
_OFS_DELTA, _REF_DELTA = 6, 7


class UnreadablePack(FacetError):
    """The pack is damaged, too large, or refers to objects outside it."""


def loose(data: bytes) -> bytes | None:
    """The content of a loose object, at most LIMIT bytes of it; None when the bytes are none."""
    try:
        text = zlib.decompressobj().decompress(data, LIMIT)
    except zlib.error:
        return None
    head, found, content = text.partition(b"\0")
    return content if found and head.partition(b" ")[0] in (b"blob", b"tree", b"commit", b"tag") else None


def packed(data: bytes) -> list[bytes]:
    """The contents of all objects of a pack file, deltas resolved. Raises UnreadablePack."""
    if data[:4] != b"PACK" or len(data) < 32 or int.from_bytes(data[8:12]) > OBJECTS:
        raise UnreadablePack("no pack file, or one with too many objects")
    try:
        return list(_objects(data, int.from_bytes(data[8:12])))
    except (zlib.error, IndexError, KeyError) as error:
        raise UnreadablePack(f"the pack file cannot be read: {error!r}") from error


def _objects(data: bytes, count: int) -> Iterator[bytes]:
    contents: dict[int, bytes] = {}
    at, total = 12, 0
    for _ in range(count):
        start = at
        kind, at = _header(data, at)
        base = b""
        if kind == _OFS_DELTA:
            distance, at = _distance(data, at)
            base = contents[start - distance]
        elif kind == _REF_DELTA:
            raise UnreadablePack("an object of the pack is a difference to one named by its hash")
        content, at = _inflated(data, at)
        contents[start] = _applied(base, content) if kind == _OFS_DELTA else content
        total += len(contents[start])
        if total > 16 * LIMIT:
            raise UnreadablePack("the pack holds too much")
        yield contents[start]


def _inflated(data: bytes, at: int) -> tuple[bytes, int]:
    """The compressed stream at ``at``, and where it ends; read in pieces, since the rest is copied each time."""
    stream, content = zlib.decompressobj(), bytearray()
    while not stream.eof:
        piece = data[at : at + _PIECE]
        content += stream.decompress(piece, LIMIT + 1 - len(content))
        if len(content) > LIMIT or not piece:
            raise UnreadablePack(f"an object of the pack has more than {LIMIT} bytes, or is cut off")
        at += len(piece) - len(stream.unused_data) - len(stream.unconsumed_tail)
    return bytes(content), at


def _header(data: bytes, at: int) -> tuple[int, int]:
    """Type of the object at ``at``, and where its header ends."""
    kind = (data[at] >> 4) & 7
    while data[at] & 0x80:
        at += 1
    return kind, at + 1


def _distance(data: bytes, at: int) -> tuple[int, int]:
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = ((value + 1) << 7) | (data[at] & 0x7F)
    return value, at + 1


def _applied(base: bytes, delta: bytes) -> bytes:
    """``base`` with the copies and insertions of ``delta``."""
    at = _skip_size(delta, _skip_size(delta, 0))
    out = bytearray()
    while at < len(delta):
        code = delta[at]
        at += 1
        if not code & 0x80:
            out += delta[at : at + code]
            at += code
            continue
        offset, at = _number(delta, at, code & 0x0F)
        size, at = _number(delta, at, (code >> 4) & 0x07)
        out += base[offset : offset + (size or 0x10000)]
        if len(out) > LIMIT:
            raise UnreadablePack(f"an object of the pack has more than {LIMIT} bytes")
    return bytes(out)


def _skip_size(delta: bytes, at: int) -> int:
    while delta[at] & 0x80:
        at += 1
    return at + 1


def _number(delta: bytes, at: int, present: int) -> tuple[int, int]:
    """A little-endian number of which only the bytes marked in ``present`` stand there."""
    value = 0
    for place in range(4):
        if present & (1 << place):
            value |= delta[at] << (8 * place)
            at += 1
    return value, at
