"""Install Debian packages, where that is possible at all; standard library only."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from facet_dagster.setup.errors import SetupError
from facet_dagster.setup.paths import Places
from facet_dagster.setup.process import run_logged

# An index younger than this is not fetched again within one set-up.
_FRESH_SECONDS = 600.0
_QUIET = {"DEBIAN_FRONTEND": "noninteractive"}
_LOCK_WAIT = ("-o", "DPkg::Lock::Timeout=300")


def obstacle() -> str | None:
    """Why this process cannot install Debian packages, or None when it can."""
    if shutil.which("apt-get") is None:
        return "this system has no apt-get"
    if os.geteuid() != 0:
        return "set-up does not run as root"
    return None


def install(places: Places, packages: Sequence[str], *, purpose: str, recommends: bool = False) -> None:
    """Install packages by apt-get. Raises SetupError when that is impossible or fails."""
    names = " ".join(packages)
    why_not = obstacle()
    if why_not is not None:
        raise SetupError(f"{purpose} needs {names}, but {why_not}; install it yourself and run this again.")
    _refresh_index(places)
    extra = () if recommends else ("--no-install-recommends",)
    run_logged(
        ("apt-get", "install", "-y", *_LOCK_WAIT, *extra, *packages),
        places.logs / f"apt-{packages[0]}.log",
        what=f"Installing {names} by apt-get",
        advice="check the apt sources of this machine and run this again",
        env=_QUIET,
    )


def _refresh_index(places: Places) -> None:
    stamp = places.home / "apt-updated"
    if stamp.exists() and _index_present() and time.time() - stamp.stat().st_mtime < _FRESH_SECONDS:
        return
    run_logged(
        ("apt-get", "update", *_LOCK_WAIT),
        places.logs / "apt-update.log",
        what="Updating the apt package index",
        advice="check the apt sources of this machine and its network, then run this again",
        env=_QUIET,
    )
    stamp.touch()


def _index_present() -> bool:
    return any(Path("/var/lib/apt/lists").glob("*Packages*"))
