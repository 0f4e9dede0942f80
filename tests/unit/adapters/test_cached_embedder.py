"""Vectors are computed once: in this process, in another one, after a kill and after damage."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from facet_dagster.adapters.cached_embedder import CHUNK, HEAD, CachedEmbedder
from facet_dagster.adapters.memory import HashEmbedder
from facet_dagster.errors import EmbedderError
from facet_dagster.ports import Vectors

TEXTS = ["merge tables", "cut a film", "merge tables", "潮汐表"]


class Counting(HashEmbedder):
    def __init__(self, name: str = "hash-256") -> None:
        self.name = name
        self.seen: list[str] = []

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.seen += texts
        return super().encode(texts)


def cached(folder: Path, name: str = "hash-256") -> tuple[CachedEmbedder, Counting]:
    inner = Counting(name)
    return CachedEmbedder(inner, folder), inner


def test_vectors_are_those_of_the_embedder_and_each_text_is_computed_once(tmp_path: Path) -> None:
    embedder, inner = cached(tmp_path)
    for _ in range(2):
        assert np.array_equal(embedder.encode(TEXTS), HashEmbedder().encode(TEXTS))
    assert sorted(inner.seen) == sorted(set(TEXTS))
    assert embedder.computed == 3


def test_another_instance_finds_them_and_sees_what_is_added_later(tmp_path: Path) -> None:
    (first, _), (second, inner) = cached(tmp_path), cached(tmp_path)
    second.encode(TEXTS[:1])
    first.encode(TEXTS)
    assert np.array_equal(second.encode(TEXTS), HashEmbedder().encode(TEXTS))
    assert inner.seen == TEXTS[:1]


def test_another_model_has_vectors_of_its_own(tmp_path: Path) -> None:
    cached(tmp_path)[0].encode(TEXTS)
    other, inner = cached(tmp_path, "other")
    other.encode(TEXTS)
    assert len(inner.seen) == 3


def test_nothing_is_asked_for_nothing(tmp_path: Path) -> None:
    embedder, _ = cached(tmp_path)
    assert embedder.encode([]).shape == (0, 256)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("cut", [1, 500, 1_043])
def test_a_record_that_was_cut_off_is_computed_again_and_the_rest_stands(tmp_path: Path, cut: int) -> None:
    cached(tmp_path)[0].encode(["a", "bb"])
    (file,) = tmp_path.glob("*.vectors")
    os.truncate(file, file.stat().st_size - cut)
    embedder, inner = cached(tmp_path)
    assert np.array_equal(embedder.encode(["a", "bb"]), HashEmbedder().encode(["a", "bb"]))
    assert inner.seen == ["a"]  # the longest text was written first
    assert cached(tmp_path)[0].encode(["a", "bb"]).shape == (2, 256)


def test_a_damaged_record_is_computed_again(tmp_path: Path) -> None:
    cached(tmp_path)[0].encode(["a", "bb"])
    (file,) = tmp_path.glob("*.vectors")
    data = bytearray(file.read_bytes())
    data[-1] ^= 255
    file.write_bytes(data)
    embedder, inner = cached(tmp_path)
    assert np.array_equal(embedder.encode(["a", "bb"]), HashEmbedder().encode(["a", "bb"]))
    assert inner.seen == ["a"]


@pytest.mark.parametrize("head", [b"", b"FV", b"junkjunkjunk", bytes(HEAD)])
def test_a_file_that_is_no_cache_is_written_anew(tmp_path: Path, head: bytes) -> None:
    cached(tmp_path)[0].encode(["a"])
    (file,) = tmp_path.glob("*.vectors")
    file.write_bytes(head)
    assert np.array_equal(cached(tmp_path)[0].encode(["a"]), HashEmbedder().encode(["a"]))
    embedder, inner = cached(tmp_path)
    embedder.encode(["a"])
    assert inner.seen == []


def test_a_file_removed_under_an_open_cache_is_no_harm(tmp_path: Path) -> None:
    embedder, inner = cached(tmp_path)
    embedder.encode(["a"])
    next(tmp_path.glob("*.vectors")).unlink()
    assert embedder.encode(["a"]).shape == (1, 256)
    assert inner.seen == ["a", "a"]


def test_a_folder_that_cannot_be_written_is_an_embedder_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EmbedderError, match="cannot be read or written"):
        CachedEmbedder(HashEmbedder(), tmp_path / "file").encode(["a"])


PROGRAM = """
    import os, signal, sys, time
    from pathlib import Path
    from facet_dagster.adapters.cached_embedder import CachedEmbedder
    from facet_dagster.adapters.memory import HashEmbedder
    class Slow(HashEmbedder):
        calls = 0
        def encode(self, texts):
            Slow.calls += 1
            if Slow.calls == {die}:
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(0.05)
            return super().encode(texts)
    embedder = CachedEmbedder(Slow(), Path({folder!r}))
    embedder.encode([f"text {{n}}" for n in range({count})])
    print(embedder.computed)
"""


def start(folder: Path, count: int, die: int = 0) -> subprocess.Popen[str]:
    program = textwrap.dedent(PROGRAM).format(folder=str(folder), count=count, die=die)
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)


def test_two_processes_at_once_compute_each_text_once(tmp_path: Path) -> None:
    count = 4 * CHUNK
    running = [start(tmp_path, count) for _ in range(2)]
    shares = [int(process.communicate()[0]) for process in running]
    assert sum(shares) == count


def test_what_a_killed_process_computed_is_kept(tmp_path: Path) -> None:
    count = 3 * CHUNK
    killed = start(tmp_path, count, die=3)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    again = start(tmp_path, count)
    assert int(again.communicate()[0]) == CHUNK
