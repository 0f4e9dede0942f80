"""Where skills come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class SourceTree(Protocol):
    """Files of one source of skills, hostile as they are: no link is followed, nothing is run. Raises SourceError.

    ``place`` names the source in texts, ``commit`` the state of a repository; paths are relative, with slashes.
    """

    @property
    def place(self) -> str: ...

    @property
    def commit(self) -> str: ...

    def paths(self) -> Mapping[str, bool]:
        """Path of every file -> whether it is a link; without .git and node_modules."""
        ...

    def read(self, path: str, cap: int) -> tuple[int, bytes]:
        """Size and bytes of a file; no bytes when it is larger than ``cap``. A link is read as its target's name.

        Raises OSError when this one file cannot be read.
        """
        ...
