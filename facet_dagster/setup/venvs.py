"""Make a virtual environment, also where Python came without ensurepip; standard library only."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from facet_dagster.setup import apt
from facet_dagster.setup.errors import SetupError
from facet_dagster.setup.paths import Places
from facet_dagster.setup.process import answers, run_logged

_LIST = (
    "import importlib.metadata as m, json;"
    "print(json.dumps({d.metadata['Name']: d.version for d in m.distributions() if d.metadata['Name']}))"
)
_ADVICE = "remove that folder and run this again"


def usable(python: Path, minimum: tuple[int, int]) -> bool:
    """Whether a virtual environment's interpreter runs, is new enough and has pip."""
    text = answers((str(python), "-c", "import pip, sys; print(*sys.version_info[:2])"))
    return text is not None and tuple(int(part) for part in text.split()) >= minimum


def installed_packages(python: Path) -> dict[str, str]:
    """The version of each package that an interpreter sees; empty when it does not run."""
    text = answers((str(python), "-c", _LIST), timeout=60.0)
    return {str(name): str(version) for name, version in json.loads(text).items()} if text else {}


def make_venv(python: Path, folder: Path, places: Places, say: Callable[[str], None]) -> None:
    """Make a new virtual environment in `folder`, replacing what is there. Raises SetupError."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    log = places.logs / f"venv-{folder.name}.log"
    what = f"Making the virtual environment {folder}"
    if not _has_ensurepip(python) and _is_system_python(python) and apt.obstacle() is None:
        version = _version(python)
        say(f"apt-get install python{version}-venv")
        apt.install(places, (f"python{version}-venv",), purpose="A virtual environment")
    if _has_ensurepip(python):
        run_logged((str(python), "-m", "venv", str(folder)), log, what=what, advice=_ADVICE)
        return
    say("pip install virtualenv")
    tool = places.home / "virtualenv"
    run_logged(
        (sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--target", str(tool), "virtualenv"),
        log,
        what="Installing virtualenv, since this Python has no ensurepip,",
        advice=f"install the venv module of {python} and run this again",
    )
    argv = (sys.executable, "-m", "virtualenv", "--quiet", "--python", str(python), str(folder))
    run_logged(argv, log, what=what, advice=_ADVICE, env={"PYTHONPATH": str(tool)})


def pip_install(python: Path, arguments: tuple[str, ...], places: Places, what: str) -> None:
    """Run `pip install` in a virtual environment. Raises SetupError."""
    run_logged(
        (str(python), "-m", "pip", "install", "--no-input", "--progress-bar", "off", *arguments),
        places.logs / f"pip-{python.parent.parent.name}.log",
        what=what,
        advice="check that pip reaches its package index and run this again",
        timeout=3600.0,
    )


def require_version(minimum: tuple[int, int], version: tuple[int, int], executable: str) -> None:
    """Raises SetupError when the running Python is too old."""
    if version < minimum:
        raise SetupError(
            f"{executable} is Python {version[0]}.{version[1]}, but {minimum[0]}.{minimum[1]} or newer is needed; "
            f"name one, e.g. `make setup PYTHON=python3.12`."
        )


def _has_ensurepip(python: Path) -> bool:
    return answers((str(python), "-c", "import ensurepip, venv")) is not None


def _is_system_python(python: Path) -> bool:
    return python.resolve().parent == Path("/usr/bin")


def _version(python: Path) -> str:
    return answers((str(python), "-c", "import sys; print('%d.%d' % sys.version_info[:2])")) or "3"
