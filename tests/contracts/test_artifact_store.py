"""One suite on every ArtifactStore, then what only files promise."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from facet_dagster.adapters.fsspec_artifact_store import FsspecArtifactStore
from facet_dagster.adapters.memory import MemoryArtifactStore
from facet_dagster.domain.ids import digest
from facet_dagster.errors import ConfigError, LedgerError
from facet_dagster.ports import ArtifactStore

Make = Callable[[Path], ArtifactStore]
STORES: dict[str, Make] = {
    "memory": lambda folder: MemoryArtifactStore(),
    "folder": lambda folder: FsspecArtifactStore(str(folder / "blobs")),
    "file url": lambda folder: FsspecArtifactStore(f"file://{folder}/blobs"),
    "object store": lambda folder: FsspecArtifactStore(f"memory://{uuid.uuid4().hex}/blobs"),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ArtifactStore:
    return STORES[request.param](tmp_path)


BLOBS = {
    "empty": b"",
    "text": "Größe\n".encode(),
    "nul": b"\0" * 10,
    "every byte": bytes(range(256)),
    "3 MB": b"x" * 3_000_000,
}


@pytest.mark.parametrize("data", BLOBS.values(), ids=BLOBS)
def test_a_blob_comes_back_under_its_hash(store: ArtifactStore, data: bytes) -> None:
    sha256 = store.put(data)
    assert sha256 == digest(data)
    assert store.get(sha256) == data
    assert store.has(sha256)


def test_putting_twice_changes_nothing(store: ArtifactStore) -> None:
    assert store.put(b"same") == store.put(b"same")
    assert store.get(digest(b"same")) == b"same"


def test_what_was_never_put_is_not_there(store: ArtifactStore) -> None:
    absent = digest(b"absent")
    assert not store.has(absent)
    with pytest.raises(LedgerError, match=f"{absent[:12]} is not in the store"):
        store.get(absent)


@pytest.mark.parametrize("name", ["", "..", "../../etc/passwd", "/etc/passwd", "A" * 64, "a" * 63, "a" * 64 + "\n"])
def test_what_is_no_hash_is_not_there(store: ArtifactStore, name: str) -> None:
    assert not store.has(name)
    with pytest.raises(LedgerError, match="is not in the store"):
        store.get(name)


def test_many_may_put_the_same_blob(store: ArtifactStore) -> None:
    data = b"shared" * 50_000
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(store.put, [data] * 32)) == {digest(data)}
    assert store.get(digest(data)) == data


# What follows is the files' own.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


def blob_path(folder: Path, data: bytes) -> Path:
    sha256 = digest(data)
    return folder / sha256[:2] / sha256[2:4] / sha256


def files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_blob_lies_where_its_hash_says_and_nothing_else_does(folder: Path) -> None:
    FsspecArtifactStore(str(folder)).put(b"data")
    assert files_in(folder) == [blob_path(folder, b"data")]


def test_two_stores_on_one_folder_share_blobs(folder: Path) -> None:
    sha256 = FsspecArtifactStore(str(folder)).put(b"data")
    assert FsspecArtifactStore(f"file://{folder}").get(sha256) == b"data"


def test_a_folder_with_odd_characters_works(tmp_path: Path) -> None:
    folder = tmp_path / "a b%20&ü"
    assert FsspecArtifactStore(str(folder)).put(b"data") == digest(b"data")
    assert blob_path(folder, b"data").read_bytes() == b"data"


def test_a_blob_that_is_there_is_not_written_again(folder: Path) -> None:
    store = FsspecArtifactStore(str(folder))
    store.put(b"data")
    before = blob_path(folder, b"data").stat()
    store.put(b"data")
    after = blob_path(folder, b"data").stat()
    assert before.st_ino == after.st_ino
    assert before.st_mtime_ns <= after.st_mtime_ns, "it is young again, so that it is not tidied away"


def test_a_damaged_blob_is_named(folder: Path) -> None:
    store = FsspecArtifactStore(str(folder))
    sha256 = store.put(b"data")
    blob_path(folder, b"data").write_bytes(b"dada")
    with pytest.raises(LedgerError, match=f"{sha256} in .* is damaged") as caught:
        store.get(sha256)
    assert not caught.value.transient


@pytest.mark.parametrize("left", [b"", b"dat"])
def test_a_truncated_blob_is_mended_by_the_next_put(folder: Path, left: bytes) -> None:
    store = FsspecArtifactStore(str(folder))
    sha256 = store.put(b"data")
    blob_path(folder, b"data").write_bytes(left)
    store.put(b"data")
    assert store.get(sha256) == b"data"


def in_process(code: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


WRITER = """
    import sys
    from facet_dagster.adapters.fsspec_artifact_store import FsspecArtifactStore
    store = FsspecArtifactStore(sys.argv[1])
    print("ready", flush=True)
    for n in range(10_000):
        store.put(b"%d" % n * 1_000_000)
"""


def test_a_killed_writer_leaves_whole_blobs_only(folder: Path) -> None:
    process = in_process(WRITER, str(folder))
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    while len(blobs := [path for path in files_in(folder) if path.parent.name != "tmp"]) < 3:
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    store = FsspecArtifactStore(str(folder))
    for path in blobs:
        assert store.get(path.name)
    for path in files_in(folder):
        assert path.parent.name == "tmp" or digest(path.read_bytes()) == path.name


def test_what_a_killed_writer_left_is_swept_once_it_is_old(folder: Path) -> None:
    (folder / "tmp").mkdir(parents=True)
    old, fresh = folder / "tmp" / "old", folder / "tmp" / "fresh"
    for path in (old, fresh):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    FsspecArtifactStore(str(folder))
    assert files_in(folder) == [fresh]


LIMITED = """
    import resource, sys
    from facet_dagster.adapters.fsspec_artifact_store import FsspecArtifactStore
    from facet_dagster.errors import LedgerError
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    store = FsspecArtifactStore(sys.argv[1])
    store.put(b"small")
    try:
        store.put(b"x" * 5000)
    except LedgerError as error:
        print(error, error.transient)
"""


def test_a_full_store_says_so_and_keeps_nothing_half_written(folder: Path) -> None:
    said, _ = in_process(LIMITED, str(folder)).communicate()
    assert "is full, or over its quota" in said
    assert said.endswith("False\n")
    assert files_in(folder) == [blob_path(folder, b"small")]


class FullFileSystem(MemoryFileSystem):  # type: ignore[misc]
    """A bucket that refuses to grow, with the error its URL names."""

    protocol = "full"

    def pipe_file(self, path: str, value: bytes, **_: Any) -> None:
        number = int(path.removeprefix("full://").partition("/")[0])
        raise OSError(number, os.strerror(number), path)


ERRORS = [
    (errno.ENOSPC, "free space, then run again", False),
    (errno.EDQUOT, "free space, then run again", False),
    (errno.EACCES, "cannot write .*Permission denied", False),
    (errno.ECONNRESET, "cannot write .*reset", True),
]


@pytest.mark.parametrize(("number", "said", "transient"), ERRORS, ids=[os.strerror(row[0]) for row in ERRORS])
def test_errors_of_a_remote_store_are_said_in_words(number: int, said: str, transient: bool) -> None:
    fsspec.register_implementation("full", FullFileSystem, clobber=True)
    store = FsspecArtifactStore(f"full://{number}/bucket")
    with pytest.raises(LedgerError, match=said) as caught:
        store.put(b"data")
    assert caught.value.transient is transient


@pytest.mark.parametrize("url", ["nosuchthing://bucket", "s3://bucket/prefix"])
def test_a_protocol_without_its_package_is_a_wrong_setting(url: str) -> None:
    with pytest.raises(ConfigError, match=r"The artifact store .* cannot be opened"):
        FsspecArtifactStore(url)


def test_a_file_in_the_way_is_the_stores_error(tmp_path: Path) -> None:
    (tmp_path / "blobs").write_text("in the way")
    with pytest.raises(LedgerError, match="cannot write"):
        FsspecArtifactStore(str(tmp_path / "blobs")).put(b"data")
