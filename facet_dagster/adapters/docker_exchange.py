"""How files reach a container and results come back: through folders that it mounts, or as archives.

An archive in or out costs about as much as half the start of a container; a mounted folder costs nothing.
Folders work where the engine runs on this machine and sees its files as we do, which ``sees_our_files`` tries
out; everywhere else the same things go through the engine as archives.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from docker.errors import APIError

from facet_dagster.adapters.docker_engine import NOT_FOUND, Engine, engine_errors
from facet_dagster.adapters.docker_removal import remove_container
from facet_dagster.adapters.file_locks import lock_errors
from facet_dagster.adapters.file_trees import read_tree, remove_tree, tree_size, write_tree
from facet_dagster.adapters.process_owner import is_dead
from facet_dagster.domain.archive import ArchiveError, Member, placed
from facet_dagster.domain.trial import Limits
from facet_dagster.errors import SandboxError
from facet_dagster.ports import Run

_TRY = "/facet-try"


@dataclass(frozen=True)
class Cargo:
    """What goes into a container: ``members`` by path relative to the root, of which ``folders`` hold all.

    ``folders`` is None when something lies outside of any folder, so that nothing can be mounted.
    """

    members: Mapping[str, Member]
    folders: tuple[str, ...] | None

    @classmethod
    def of(cls, run: Run) -> Cargo:
        """Raises SandboxError on an archive that is damaged or would leave its target."""
        members = {path.strip("/"): Member("dir", 0o777) for path in run.outbox}
        folders = set(members)
        for put in run.put:
            try:
                inside = placed(put.archive, put.target)
            except ArchiveError as error:
                raise SandboxError(f"An archive cannot be put into a container: {error}") from error
            target = put.target.strip("/")
            folders |= {target} if target else {path.partition("/")[0] for path in inside}
            members |= inside
        return cls(members, _mountable(folders, members))


class SharedFolders:
    """The mounted folders of one container: filled from ``cargo``, read after its end, removed by ``close``."""

    def __init__(self, root: Path, cargo: Cargo) -> None:
        assert cargo.folders is not None
        self._root, self._folders = root, cargo.folders
        for number, folder in enumerate(cargo.folders):
            inside = {p.removeprefix(folder).lstrip("/"): m for p, m in cargo.members.items() if _within(p, folder)}
            top = inside.pop("", Member("dir", 0o755))
            # One folder in between keeps what users of this machine must not reach out of their sight.
            write_tree(root, {str(number): top, **{f"{number}/{path}": m for path, m in inside.items()}})

    def mounts(self) -> list[dict[str, Any]]:
        return [
            {"Type": "bind", "Source": str(self._root / str(n)), "Target": f"/{folder}"}
            for n, folder in enumerate(self._folders)
        ]

    def size(self, most: int) -> int:
        """Bytes on disk; stops counting over ``most``."""
        return tree_size(self._root, most)

    def collect(self, path: str, limits: Limits) -> bytes | None:
        """Archive of the mounted folder ``path``, None when it is not one of ours. Raises ArchiveTooLarge."""
        folder = path.strip("/")
        if folder not in self._folders:
            return None
        return read_tree(self._root / str(self._folders.index(folder)), limits, name=folder.rpartition("/")[2])

    def close(self) -> None:
        remove_tree(self._root)


class Exchange:
    """Makes the shared folders of one sandbox below ``folder``, named after its owner, so that any process can
    see which of them a dead one left."""

    def __init__(self, folder: Path, owner: str) -> None:
        self._top, self._folder = folder, folder / quote(owner, safe="")

    def empty(self) -> Path:
        """A new private folder."""
        with lock_errors(self._top):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            return Path(tempfile.mkdtemp(dir=self._folder))

    @contextlib.contextmanager
    def shared(self, cargo: Cargo) -> Iterator[SharedFolders]:
        root = self.empty()
        try:
            with lock_errors(self._top):
                folders = SharedFolders(root, cargo)
            yield folders
        except ArchiveError as error:
            raise SandboxError(f"An archive cannot be put into a container: {error}") from error
        finally:
            remove_tree(root)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._folder.rmdir()

    def reap(self, *, everything: bool = False) -> None:
        """Remove the folders of dead owners."""
        for folder in self._top.iterdir() if self._top.is_dir() else ():
            if everything or is_dead(unquote(folder.name)):
                remove_tree(folder)


def sees_our_files(engine: Engine, exchange: Exchange, image: str, labels: Mapping[str, str]) -> bool:
    """Whether a container can mount a folder of this machine and finds in it what we wrote, with its owner."""
    if engine.data_root is None or os.geteuid() != 0 or engine.renames_users:
        return False
    folder = exchange.empty()
    (folder / "token").write_text("x")
    try:
        with engine_errors("try a shared folder"):
            return _finds(engine, image, folder, labels)
    finally:
        remove_tree(folder)


def _finds(engine: Engine, image: str, folder: Path, labels: Mapping[str, str]) -> bool:
    api = engine.api
    mount = {"Type": "bind", "Source": str(folder), "Target": _TRY, "ReadOnly": True}
    try:
        ident = api.create_container(
            image, entrypoint=["true"], labels=dict(labels), host_config={"Mounts": [mount], "NetworkMode": "none"}
        )
    except APIError:
        return False  # no such folder, or mounts are forbidden
    try:
        stream, _ = api.get_archive(ident["Id"], f"{_TRY}/token")
        return bool(b"".join(stream))
    except APIError as error:
        if error.status_code == NOT_FOUND:
            return False
        raise
    finally:
        remove_container(engine, ident["Id"])


def _mountable(folders: set[str], members: Mapping[str, Member]) -> tuple[str, ...] | None:
    """``folders`` in order; None when one is a file, or lies in another."""
    files = any(members.get(folder, Member("dir")).type != "dir" for folder in folders)
    nested = any(one != other and _within(one, other) for one in folders for other in folders)
    return None if files or nested else tuple(sorted(folders))


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")
