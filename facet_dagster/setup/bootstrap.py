"""Phase 1: the platform's virtual environment, made with nothing but the standard library."""

from __future__ import annotations

import contextlib
import fcntl
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from facet_dagster.setup import lock, venvs
from facet_dagster.setup.errors import SetupError
from facet_dagster.setup.paths import Places

MINIMUM = (3, 11)
_STAMP = "facet-lock.sha256"


def ensure_venv(places: Places) -> None:
    """Make the virtual environment satisfy the lock; milliseconds when it does already. Raises SetupError."""
    started = time.monotonic()
    venvs.require_version(MINIMUM, sys.version_info[:2], sys.executable)
    if not places.lock.is_file():
        raise SetupError(f"{places.lock} is missing; restore it from the repository and run this again.")
    wanted = lock.digest(places.lock)
    stamp = places.venv / _STAMP
    if lock.stamped(stamp, wanted) and places.venv_python.exists():
        _tell("skipped", "the virtual environment satisfies requirements.lock", started)
        return
    pins = lock.parse_lock(places.lock.read_text(encoding="utf-8"))
    if not venvs.usable(places.venv_python, MINIMUM):
        _wait(f"a virtual environment in {places.venv}")
        venvs.make_venv(Path(sys.executable), places.venv, places, _wait)
    missing = lock.unmet(pins, venvs.installed_packages(places.venv_python))
    if missing:
        _wait(f"{len(missing)} packages from pip (minutes the first time; log: {places.logs / 'pip-venv.log'})")
        what = "Installing requirements.lock"
        venvs.pip_install(places.venv_python, ("-r", str(places.lock)), places, what)
    lock.write_stamp(stamp, wanted)
    _tell("done", f"{len(pins)} packages, {len(missing)} newly installed", started)


@contextlib.contextmanager
def one_at_a_time(places: Places) -> Iterator[None]:
    """Hold the set-up lock of this home, waiting for another set-up to end. Raises SetupError."""
    try:
        places.home.mkdir(parents=True, exist_ok=True)
        file = (places.home / "setup.lock").open("w")
    except OSError as error:
        raise SetupError(
            f"FACET_HOME {places.home} cannot be written ({error}); set it to a folder of yours."
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _wait("another set-up of this checkout")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _wait(what: str) -> None:
    print(f"Python packages: waiting for {what}", flush=True)


def _tell(state: str, detail: str, started: float) -> None:
    print(f"Python packages: {state} {detail} ({time.monotonic() - started:.1f} s)", flush=True)
