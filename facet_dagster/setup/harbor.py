"""The Harbor tool in a virtual environment of its own, since it needs a newer Python than the platform."""

from __future__ import annotations

from pathlib import Path

from facet_dagster.setup import lock, pythons, venvs
from facet_dagster.setup.compose import compose_version, ensure_compose
from facet_dagster.setup.errors import SetupError
from facet_dagster.setup.harbor_tool import RECORD_NAME, harbor_command
from facet_dagster.setup.paths import Places, process_env, read_json, write_json
from facet_dagster.setup.steps import Outcome, Say

MINIMUM = (3, 12)
REQUIREMENTS = Path("facet_harbor") / "requirements.lock"
_STAMP = "facet-lock.sha256"


class HarborStep:
    """Make `harbor` runnable and record it in harbor.json, or record why that is impossible here."""

    name = "Harbor"
    waits_for = "Harbor and docker compose"

    def __init__(self, places: Places) -> None:
        self._places = places
        self._venv = places.home / "harbor"

    def needed(self) -> bool:
        """Whether the recorded tool is missing, incomplete or of an older lock."""
        record = read_json(self._places.home / RECORD_NAME)
        if harbor_command(self._places.home) is None or not self._installed():
            return True
        config = record.get("docker_config")
        return compose_version(Path(config) if config else None) is None

    def run(self, say: Say) -> Outcome:
        """Set it up; what this machine lacks makes it unavailable, not the set-up fail."""
        record = self._places.home / RECORD_NAME
        try:
            found = self._python()
            say("docker compose version 2")
            config = ensure_compose(self._places)
            self._install(found, say)
        except SetupError as error:
            write_json(record, {"available": False, "why": str(error)})
            return Outcome("unavailable", str(error))
        value = {
            "available": True,
            "python": str(self._venv / "bin" / "python"),
            "harbor": str(self._venv / "bin" / "harbor"),
            "docker_config": str(config) if config else None,
        }
        write_json(record, value)
        version = ".".join(map(str, found.version))
        return Outcome("done", f"{value['harbor']} on Python {version}, compose {compose_version(config)}")

    def _python(self) -> pythons.Interpreter:
        env = process_env()
        found = pythons.find(MINIMUM, env.get("PATH", ""), Path(env.get("HOME") or "~").expanduser())
        if found is None:
            raise SetupError(no_python_message())
        return found

    def _install(self, found: pythons.Interpreter, say: Say) -> None:
        if self._installed():
            return
        python = self._venv / "bin" / "python"
        if not venvs.usable(python, MINIMUM):
            say(f"a virtual environment of {found.path}")
            venvs.make_venv(found.path, self._venv, self._places, say)
        say("pip install harbor (a minute the first time)")
        requirements = self._places.repo / REQUIREMENTS
        venvs.pip_install(python, ("-r", str(requirements)), self._places, "Installing Harbor")
        lock.write_stamp(self._venv / _STAMP, lock.digest(requirements))

    def _installed(self) -> bool:
        value = lock.digest(self._places.repo / REQUIREMENTS)
        return (self._venv / "bin" / "harbor").exists() and lock.stamped(self._venv / _STAMP, value)


def no_python_message() -> str:
    """What to do where no Python is new enough for Harbor."""
    return (
        f"Harbor needs Python {MINIMUM[0]}.{MINIMUM[1]} or newer and none was found on PATH or among pyenv's versions; "
        "install one (Debian 13 has it, pyenv builds it) and run this again."
    )
