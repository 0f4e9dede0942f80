"""What was read out of images, kept for whoever reads it again: an image never changes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from facet_dagster.domain.trial import Limits

MOST = 32 * 1024 * 1024
Key = tuple[str, str, Limits]


class Reads:
    """Archives by the image's id, the path and the limits; of the last ones ``most`` bytes. Thread-safe."""

    def __init__(self, most: int = MOST) -> None:
        self._most, self._used = most, 0
        self._kept: OrderedDict[Key, bytes] = OrderedDict()
        self._guard = threading.Lock()

    def through(self, key: Key, read: Callable[[], bytes | None]) -> bytes | None:
        """The archive that is kept, or else what ``read`` gives; nothing is kept of a path that is absent."""
        with self._guard:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        archive = read()
        if archive is not None and len(archive) <= self._most:
            self._keep(key, archive)
        return archive

    def _keep(self, key: Key, archive: bytes) -> None:
        with self._guard:
            if key in self._kept:
                return  # another thread read it meanwhile
            self._kept[key] = archive
            self._used += len(archive)
            while self._used > self._most:
                self._used -= len(self._kept.popitem(last=False)[1])
