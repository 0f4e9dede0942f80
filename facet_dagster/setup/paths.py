"""Where set-up puts things; standard library only."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPO_ROOT = Path(__file__).resolve().parents[2]


def process_env() -> Mapping[str, str]:
    """The environment of this process: set-up runs before there are settings, so it reads it itself, here alone."""
    return os.environ  # noqa: TID251


@dataclass(frozen=True)
class Places:
    """The folders of one set-up: the checkout, what runs (`FACET_HOME`), what survives a new clone (`FACET_CACHE`)."""

    repo: Path
    home: Path
    cache: Path

    @classmethod
    def from_env(cls, env: Mapping[str, str], repo: Path = REPO_ROOT) -> Places:
        """Read `FACET_HOME` (relative to the checkout) and `FACET_CACHE`; empty values count as unset."""
        home = repo / Path(env.get("FACET_HOME") or ".facet").expanduser()
        cache = Path(env.get("FACET_CACHE") or "~/.cache/facet").expanduser()
        return cls(repo=repo, home=home, cache=(repo / cache).absolute())

    @property
    def venv(self) -> Path:
        """The platform's own virtual environment."""
        return self.home / "venv"

    @property
    def venv_python(self) -> Path:
        """The interpreter of the platform's virtual environment."""
        return self.venv / "bin" / "python"

    @property
    def lock(self) -> Path:
        """The committed list of pinned packages."""
        return self.repo / "requirements.lock"

    @property
    def logs(self) -> Path:
        """One file for each command that set-up ran."""
        return self.home / "log"


def write_aside(path: Path, text: str) -> None:
    """Replace a text file in one step, so that a reader never sees half of it. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_json(path: Path, value: object) -> None:
    """Write JSON in one step. Raises OSError."""
    write_aside(path, json.dumps(value, indent=2, sort_keys=True) + "\n")


def read_json(path: Path) -> Any:
    """The value in a JSON file, or None when the file is missing or broken."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
