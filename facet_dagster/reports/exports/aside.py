"""A folder that appears when it is whole: written aside, then renamed; half of one never looks like one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from facet_dagster.errors import ConfigError

MANIFEST = "manifest.json"


def ours(folder: Path) -> bool:
    """Whether an export of ours wrote ``folder``."""
    return (folder / MANIFEST).is_file()


@contextmanager
def aside(folder: Path, replaceable: Callable[[Path], bool] = ours) -> Iterator[Path]:
    """A folder beside ``folder`` that takes its place when the block ends well, and is removed when it does not.

    Raises ConfigError when ``folder`` holds what is not ``replaceable``.
    """
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not replaceable(folder))):
        raise ConfigError(f"{folder} is there and is no dataset of ours: name another folder, or remove it")
    part, old = (folder.with_name(f".{folder.name}.{kind}-{os.getpid()}") for kind in ("part", "old"))
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        yield part
        if folder.exists():
            folder.rename(old)
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
