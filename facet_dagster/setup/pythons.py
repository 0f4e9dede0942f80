"""Find a Python of a given age on this machine; standard library only."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from facet_dagster.setup.process import answers

_ASK = "import sys; print(sys.executable); print(*sys.version_info[:3])"
_NAME = re.compile(r"^python3(\.\d+)?$")


@dataclass(frozen=True)
class Interpreter:
    """A Python that was asked for its own path and version: a shim on PATH is not what it claims to be."""

    path: Path
    version: tuple[int, int, int]


def candidates(path: str, user_home: Path) -> list[Path]:
    """The files that may be a Python: `python3*` on each folder of PATH, then pyenv's versions; each once."""
    found: list[Path] = []
    for folder in path.split(os.pathsep):
        if folder and Path(folder).is_dir():
            found += sorted(entry for entry in Path(folder).iterdir() if _NAME.match(entry.name))
    found += sorted((user_home / ".pyenv" / "versions").glob("*/bin/python3"))
    return list(dict.fromkeys(found))


def ask(candidate: Path) -> Interpreter | None:
    """What the file says that it is, or None when it does not run as a Python."""
    text = answers((str(candidate), "-c", _ASK), timeout=10.0)
    lines = (text or "").splitlines()
    if len(lines) != 2 or not re.fullmatch(r"\d+ \d+ \d+", lines[1]):
        return None
    major, minor, micro = (int(part) for part in lines[1].split())
    return Interpreter(Path(lines[0]), (major, minor, micro))


def choose(found: Iterable[Interpreter], minimum: tuple[int, int]) -> Interpreter | None:
    """The oldest release that is new enough, at its latest patch: the one that packages have wheels for."""
    enough = [one for one in found if one.version[:2] >= minimum]
    return min(enough, key=lambda one: (one.version[:2], -one.version[2]), default=None)


def find(minimum: tuple[int, int], path: str, user_home: Path) -> Interpreter | None:
    """A Python of at least that version on this machine, or None."""
    answered = (ask(candidate) for candidate in candidates(path, user_home))
    return choose((one for one in answered if one is not None), minimum)
