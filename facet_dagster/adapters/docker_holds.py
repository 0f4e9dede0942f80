"""Who uses an image just now, over all processes: an image that is held is not removed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from facet_dagster.adapters.file_locks import ALONE, SHARED, lock_errors, locked


class Holds:
    """One small file an image, locked in shared mode by its users; the system frees it when a process dies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def hold(self, image: str) -> Iterator[None]:
        """Waits while the image is being removed."""
        with lock_errors(self._folder):
            file = locked(self._path(image), SHARED)
        assert file is not None
        try:
            yield
        finally:
            os.close(file)

    @contextmanager
    def alone(self, image: str) -> Iterator[bool]:
        """Gives whether nobody holds the image; if so, nobody can until the block ends."""
        with lock_errors(self._folder):
            file = locked(self._path(image), ALONE, wait=False)
        if file is None:
            yield False
            return
        try:
            yield True
        finally:
            # Files must not pile up. Who waits for this one sees that it is gone and makes a new one.
            self._path(image).unlink(missing_ok=True)
            os.close(file)

    def _path(self, image: str) -> Path:
        return self._folder / f"image-{image.replace('/', '_').replace(':', '_')}.lock"
