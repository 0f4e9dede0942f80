"""Keeps the engine's disk from filling up: a bounded build cache, and task images that go when room is short."""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker.errors import NotFound

from facet_dagster.adapters.docker_context import REPOSITORY
from facet_dagster.adapters.docker_engine import Engine, engine_errors
from facet_dagster.adapters.docker_holds import Holds
from facet_dagster.adapters.docker_reaper import remove_image
from facet_dagster.adapters.file_locks import ALONE, lock_errors, locked
from facet_dagster.errors import SandboxError

_GIB = 1024**3
_TRIM_EVERY = 600.0
# What every build shares was used last and is pruned last.
_KEEP = 2 * _GIB


@dataclass(frozen=True)
class DiskLimits:
    """GiB. Below ``watermark`` of free space task images are evicted, and no build starts while it lasts; below
    ``floor`` nothing runs. The build cache is kept under ``cache``."""

    watermark: float = 4.0
    floor: float = 1.0
    cache: float = 20.0


def _sortable(moment: str) -> str:
    """With the zeros that the engine leaves out: as text "…:05Z" sorts after "…:05.1Z"."""
    whole, _, fraction = moment.removesuffix("Z").partition(".")
    return f"{whole}.{fraction:0<9}"


class DiskGuard:
    """Watches the disk of an engine on this machine; of one elsewhere nothing is known and nothing is refused."""

    def __init__(self, engine: Engine, holds: Holds, limits: DiskLimits, folder: Path) -> None:
        self._engine, self._holds, self._limits, self._folder = engine, holds, limits, folder

    def before_run(self) -> None:
        """Raises SandboxError below the floor: a full disk must never look like a task that failed."""
        if self._engine.disk_is_full:
            self._refuse(self._limits.floor, "running anything")

    def before_build(self) -> None:
        """Make room where it is short. Raises SandboxError when that was not enough."""
        if self._short:
            self.make_room()
            if self._short:
                self._refuse(self._limits.watermark, "building")

    def make_room(self) -> tuple[str, ...]:
        """Remove task images that nobody holds, oldest first, until the disk is no longer short; gives their tags.

        The least used of the build cache goes first and with them, and all of it where nothing else is left.
        Base images are never touched.
        """
        removed: list[str] = []
        keep = min(_KEEP, self._cache)
        self.prune_cache(keep)
        for tag in self._oldest_first():
            if not self._short:
                return tuple(removed)
            if remove_image(self._engine, self._holds, tag):
                removed.append(tag)
                self.prune_cache(keep)  # an image's layers stay while the cache has them
        if self._short:
            self.prune_cache(0)
        return tuple(removed)

    def trim_cache(self) -> None:
        """Bound the build cache, at most every ten minutes over all processes of this machine."""
        stamp = self._folder / "cache-trimmed"
        with lock_errors(self._folder):
            file = locked(stamp, ALONE, wait=False)
            if file is None:
                return
            try:
                if os.fstat(file).st_size and time.time() - os.fstat(file).st_mtime < _TRIM_EVERY:
                    return
                self.prune_cache(self._cache)
                os.pwrite(file, b"x", 0)
            finally:
                os.close(file)

    def prune_cache(self, keep: int) -> int:
        """Remove the least recently used of the build cache over ``keep`` bytes; gives the bytes that were freed.

        What an image still needs is not counted and stays.
        """
        api = self._engine.api
        with engine_errors("prune the build cache"):
            answer: Any = api._result(api._post(api._url("/build/prune"), params={"keep-storage": str(keep)}), True)
        return int(answer.get("SpaceReclaimed") or 0)

    @property
    def _short(self) -> bool:
        return self._engine.disk_is_short(self._limits.watermark)

    @property
    def _cache(self) -> int:
        return int(self._limits.cache * _GIB)

    def _oldest_first(self) -> list[str]:
        with engine_errors("list images"):
            found = self._engine.api.images(filters={"reference": f"{REPOSITORY}:*"})
        seconds = Counter(image["Created"] for image in found)
        made = sorted(
            (image["Created"], self._made(image["Id"]) if seconds[image["Created"]] > 1 else "", tag)
            for image in found
            for tag in image.get("RepoTags") or ()
        )
        return [tag for _, _, tag in made if tag.startswith(f"{REPOSITORY}:")]

    def _made(self, image: str) -> str:
        """When, to the nanosecond as text that sorts: a list of images knows whole seconds. Empty where it has gone."""
        with engine_errors("inspect an image"):
            try:
                return _sortable(self._engine.api.inspect_image(image)["Created"])
            except NotFound:
                return ""

    def _refuse(self, gib: float, doing: str) -> None:
        raise SandboxError(
            f"Less than {gib:g} GiB (or 2 % of inodes) is free in {self._engine.data_root}: "
            f"free some disk space there before {doing}"
        )
