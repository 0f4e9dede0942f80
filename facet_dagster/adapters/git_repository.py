"""Repositories as sources of skills: one shallow fetch without a working tree, read through ``git cat-file``.

A repository is hostile. Nothing of it is checked out, so no link, hook, filter or submodule of it can act; the
user's own configuration and credentials are not read, and git may not ask for any.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from facet_dagster.errors import ConfigError, SourceError

BRANCH = "refs/heads/facet"
SKIPPED = re.compile(r"(?:^|/)(?:\.git|node_modules)/")
POLL_SECONDS = 0.2
LISTING_CAP = 512 * 2**20
_FORGOTTEN = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
)
_OPTIONS = (
    "core.hooksPath=/dev/null",
    "credential.helper=",
    "protocol.allow=never",
    "protocol.https.allow=always",
    "protocol.file.allow=always",
    "fetch.recurseSubmodules=false",
    "gc.auto=0",
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=60",
)


class GitTree:
    """``SourceTree`` over one commit of a bare repository in ``folder``."""

    def __init__(self, place: str, folder: Path, commit: str) -> None:
        self.place = place
        self.commit = commit
        self._folder = folder
        self._objects: dict[str, str] = {}
        self._readers: dict[str, subprocess.Popen[bytes]] = {}

    def paths(self) -> Mapping[str, bool]:
        found = {}
        for entry in filter(None, self._listing().split(b"\0")):
            facts, _, name = entry.partition(b"\t")
            mode, kind, ident = facts.decode().split(" ")
            path = os.fsdecode(name)
            if kind == "blob" and not SKIPPED.search(path):
                found[path] = mode == "120000"
                self._objects[path] = ident
        return found

    def _listing(self) -> bytes:
        """Bounded: a few kilobytes of trees that hold each other can name thousands of millions of files."""
        command = _command(self._folder, "ls-tree", "-r", "-z", "--full-tree", self.commit)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as lister:
            assert lister.stdout is not None
            listing = lister.stdout.read(LISTING_CAP + 1)
            if len(listing) > LISTING_CAP:
                lister.kill()
                raise SourceError(
                    f"{self.place} lists more than {LISTING_CAP / 2**20:.0f} MiB of file names: leave it out."
                )
        if lister.returncode:
            raise SourceError(f"{self.place} cannot be listed: git ls-tree ended with code {lister.returncode}.")
        return listing

    def read(self, path: str, cap: int) -> tuple[int, bytes]:
        ident = self._objects[path]
        size = self._ask("--batch-check", ident)[0]
        return (size, b"") if size > cap else self._ask("--batch", ident)

    def _ask(self, how: str, ident: str) -> tuple[int, bytes]:
        """Size and bytes (none of a check) of one object."""
        if how not in self._readers:
            self._readers[how] = subprocess.Popen(
                _command(self._folder, "cat-file", how), stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        asked, told = _pipes(self._readers[how])
        try:
            asked.write(f"{ident}\n".encode())
            asked.flush()
            head = told.readline().split()
        except OSError as error:
            raise SourceError(f"{self.place} cannot be read: git ended ({error.strerror})") from error
        if len(head) == 2:
            raise OSError(f"git has no object {ident[:12]}")
        size = int(head[2]) if len(head) == 3 else -1
        data = told.read(size + 1)[:size] if how == "--batch" else b""
        if size < 0 or (how == "--batch" and len(data) != size):
            raise SourceError(f"{self.place} cannot be read: git ended in the middle.")
        return size, data

    def close(self) -> None:
        """End the two readers."""
        for reader in self._readers.values():
            for pipe in _pipes(reader):
                with suppress(OSError):  # one that was killed leaves what was asked of it unwritten
                    pipe.close()
            reader.wait()


def _pipes(reader: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert reader.stdin is not None
    assert reader.stdout is not None
    return reader.stdin, reader.stdout


@contextmanager
def git_tree(url: str, ref: str, *, below: Path, megabytes: int, seconds: float) -> Iterator[GitTree]:
    """The newest commit of ``ref`` (a branch, a tag or a full commit id; empty: the default branch) for the block.

    It lies in a folder of its own below ``below``. Raises ConfigError for a URL that is not https or file, and
    SourceError when the repository does not answer, lacks ``ref``, or is over ``megabytes`` or ``seconds``.
    """
    address = _address(url)
    below.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="git-", dir=below, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        _run(url, _command(folder, "init", "--quiet", "--bare", "--template=", "."), folder, megabytes, seconds)
        wanted = f"+{ref or 'HEAD'}:{BRANCH}"
        fetch = ("fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--", address, wanted)
        _run(url, _command(folder, *fetch), folder, megabytes, seconds)
        commit = _run(url, _command(folder, "rev-parse", f"{BRANCH}^{{commit}}"), folder, megabytes, seconds)
        tree = GitTree(url, folder, commit)
        try:
            yield tree
        finally:
            tree.close()


def newest(url: str, ref: str, *, below: Path, seconds: float) -> str:
    """What ``ref`` (empty: the default branch) stands for now, without fetching it; another text, another commit.

    Raises ConfigError and SourceError as ``git_tree`` does.
    """
    if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", ref):
        return ref
    below.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="git-", dir=below, ignore_cleanup_errors=True) as name:
        command = _command(Path(name), "ls-remote", "--quiet", "--", _address(url), ref or "HEAD")
        return _run(url, command, Path(name), 1, seconds)


def _address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"https", "file"} or (parts.scheme == "https" and not parts.hostname):
        raise ConfigError(f"{url} is no address of a repository: give https://HOST/OWNER/NAME or file:///FOLDER.")
    if parts.username or parts.password:
        raise ConfigError(f"The address of {parts.hostname}{parts.path} holds a credential: only public ones are read.")
    return url


def _command(folder: Path, *words: str) -> list[str]:
    """git in ``folder``, with nothing of the user's configuration; HOME holds no credentials there."""
    forget = [word for name in _FORGOTTEN for word in ("-u", name)]
    fixed = [f"HOME={folder}", "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"]
    options = [word for option in _OPTIONS for word in ("-c", option)]
    return ["env", *forget, *fixed, "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C", "git", "-C", str(folder), *options, *words]


def _run(url: str, command: Sequence[str], folder: Path, megabytes: int, seconds: float) -> str:
    """What git prints. It is killed, with all that it started, when it takes too long or writes too much."""
    began = time.monotonic()
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
            )
        except OSError as error:
            raise ConfigError(f"git cannot be started ({error.strerror}): install it to read repositories.") from error
        problem = ""
        try:
            while process.poll() is None and not problem:
                try:
                    process.wait(POLL_SECONDS)
                except subprocess.TimeoutExpired:
                    problem = _over(folder, megabytes, time.monotonic() - began, seconds)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        said.seek(0)
        text = said.read(64 * 1024)
    if problem := problem or _over(folder, megabytes, 0.0, seconds):
        raise SourceError(f"{url} {problem}")
    if process.returncode:
        raise SourceError(f"{url} cannot be fetched: {_last_line(text)}", transient=True)
    return text.decode("utf-8", "replace").strip()


def _over(folder: Path, megabytes: int, took: float, seconds: float) -> str:
    if took > seconds:
        return f"takes longer than {seconds:.0f} s: raise max_seconds of this source, or leave it out."
    size = 0
    for path in folder.rglob("*"):
        try:
            size += path.stat(follow_symlinks=False).st_size
        except OSError:
            continue  # git renames what it has finished
    if size > megabytes * 2**20:
        return f"has more than {megabytes} MiB: raise max_megabytes of this source, or leave it out."
    return ""


def _last_line(said: bytes) -> str:
    lines = [line for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    fatal = next((line for line in lines if line.startswith(("fatal:", "error:", "remote: "))), "")
    return (fatal or (lines[-1] if lines else "git said nothing"))[:300]


def sweep(below: Path) -> None:
    """Remove the repositories that killed processes left ``below``; nobody else may be reading one."""
    for left in below.glob("git-*"):
        shutil.rmtree(left, ignore_errors=True)
