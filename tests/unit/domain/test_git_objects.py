from __future__ import annotations

import zlib

import pytest

from facet_dagster.domain.git_objects import UnreadablePack, loose, packed

ANSWER = b"north,11.75\nsouth,4.00\n"


def pack_of(*objects: bytes) -> bytes:
    return b"PACK" + (2).to_bytes(4) + len(objects).to_bytes(4) + b"".join(objects) + b"\0" * 20


def stored(kind: int, content: bytes, between: bytes = b"") -> bytes:
    """One object of a pack; sizes below 16 fit its first byte, larger ones take another."""
    size = len(content)
    first = (kind << 4) | (size & 15)
    head = bytes([first]) if size < 16 else bytes([first | 0x80, size >> 4])
    return head + between + zlib.compress(content)


def test_a_loose_object_is_its_content() -> None:
    assert loose(zlib.compress(b"blob 23\0" + ANSWER)) == ANSWER
    assert loose(b"no zlib") is None
    assert loose(zlib.compress(b"something else\0" + ANSWER)) is None


def test_objects_of_a_pack_come_back_with_their_differences_applied() -> None:
    base = stored(3, ANSWER)
    # 12 bytes copied from the beginning, five inserted, the last five copied
    delta = bytes([23, 22, 0x90, 12, 5]) + b"east," + bytes([0x91, 18, 5])
    difference = stored(6, delta, between=bytes([len(base)]))
    assert packed(pack_of(base, difference)) == [ANSWER, b"north,11.75\neast,4.00\n"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PACK",
        pack_of(stored(3, ANSWER))[:-30],
        pack_of(stored(7, b"x", between=b"\0" * 20)),
        b"PACK" + b"\xff" * 40,
    ],
)
def test_a_pack_that_cannot_be_read_says_so(data: bytes) -> None:
    with pytest.raises(UnreadablePack):
        packed(data)
