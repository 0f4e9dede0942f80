from __future__ import annotations

from facet_dagster.adapters.docker_reads import Key, Reads
from facet_dagster.domain.trial import Limits


def key(image: str, path: str = "/app", **limits: int) -> Key:
    return image, path, Limits.model_validate(limits)


def read_anew(reads: Reads, what: Key, archive: bytes | None) -> bool:
    """Whether the image itself was asked; either way the answer is ``archive``."""
    asked: list[Key] = []

    def read() -> bytes | None:
        asked.append(what)
        return archive

    assert reads.through(what, read) == archive
    return bool(asked)


def test_the_least_used_goes_first_and_what_is_too_big_is_not_kept() -> None:
    reads = Reads(most=10)
    assert read_anew(reads, key("a"), b"aaaaa")
    assert read_anew(reads, key("b"), b"bbbbb")
    assert not read_anew(reads, key("a"), b"aaaaa")
    assert read_anew(reads, key("c"), b"c")
    assert not read_anew(reads, key("a"), b"aaaaa")
    assert read_anew(reads, key("b"), b"bbbbb"), "it was used before the others"
    assert read_anew(reads, key("d"), b"d" * 11)
    assert read_anew(reads, key("d"), b"d" * 11)


def test_image_path_and_limits_make_the_difference() -> None:
    reads = Reads()
    assert read_anew(reads, key("a"), b"1")
    assert read_anew(reads, key("a", "/etc"), b"2")
    assert read_anew(reads, key("b"), b"3")
    assert read_anew(reads, key("a", archive=5), b"4")
    assert not read_anew(reads, key("a"), b"1")


def test_what_is_absent_is_looked_for_again() -> None:
    reads = Reads()
    assert read_anew(reads, key("a"), None)
    assert read_anew(reads, key("a"), None)
