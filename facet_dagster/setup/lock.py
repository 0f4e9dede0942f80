"""The committed lock and the stamp that says a virtual environment satisfies it; standard library only."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from facet_dagster.setup.errors import SetupError
from facet_dagster.setup.paths import write_aside

_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9.!+_-]+)$")
# torch brings these by itself, where its wheel is a GPU one.
_BROUGHT_BY_TORCH = re.compile(r"^(nvidia|triton|cuda)\b")
_NEVER_PINNED = frozenset({"pip", "setuptools", "wheel", "facet-dagster"})
_HEADER = """\
# The exact versions that are installed and tested. Made from requirements.in by
#   pip install -r requirements.in && python -m facet_dagster.setup --write-lock
"""


def normal_name(name: str) -> str:
    """A package's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parse_lock(text: str) -> dict[str, str]:
    """The pinned version of each package. Raises SetupError at a line that is no pin."""
    pins: dict[str, str] = {}
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.split("#", 1)[0].strip()
        if not line:
            continue
        match = _PIN.match(line)
        if match is None:
            raise SetupError(f"requirements.lock line {number} is no pin of the form name==version: {line!r}; mend it.")
        pins[normal_name(match[1])] = match[2]
    return pins


def clean_freeze(text: str) -> str:
    """The text of a lock from what `pip freeze` prints: no local versions, no GPU libraries, no editable installs."""
    pins = {}
    for line in text.splitlines():
        match = _PIN.match(line.strip())
        if match is None:
            continue
        name = normal_name(match[1])
        if name not in _NEVER_PINNED and not _BROUGHT_BY_TORCH.match(name):
            pins[name] = match[2].split("+", 1)[0]
    return _HEADER + "".join(f"{name}=={version}\n" for name, version in sorted(pins.items()))


def unmet(pins: Mapping[str, str], installed: Mapping[str, str]) -> list[str]:
    """The pins that installed versions do not satisfy; a local version such as `+cpu` satisfies its public one."""
    have = {normal_name(name): version.split("+", 1)[0] for name, version in installed.items()}
    return sorted(f"{name}=={version}" for name, version in pins.items() if have.get(name) != version)


def digest(*paths: Path) -> str:
    """One sha256 over the files' bytes. Raises OSError."""
    total = hashlib.sha256()
    for path in paths:
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def stamped(stamp: Path, value: str) -> bool:
    """Whether the stamp file holds exactly that value."""
    try:
        return stamp.read_text(encoding="utf-8").strip() == value
    except OSError:
        return False


def write_stamp(stamp: Path, value: str) -> None:
    """Write the stamp last, when the work it stands for is whole. Raises OSError."""
    write_aside(stamp, value + "\n")
