"""The trainer's virtual environment: what TRL needs beyond the platform's packages, which it sees and shares.

torch and transformers are large and pinned in requirements.lock already; a second copy of them would cost a gigabyte.
"""

from __future__ import annotations

from pathlib import Path

from facet_dagster.setup import lock, venvs
from facet_dagster.setup.errors import SetupError
from facet_dagster.setup.paths import REPO_ROOT, Places
from facet_dagster.setup.process import answers
from facet_dagster.setup.steps import Outcome, Say

REQUIREMENTS = Path("facet_trainer") / "requirements.lock"
_STAMP = "facet-lock.sha256"
_SHARED = "facet-platform.pth"  # Python adds the folder that it names to the end of its search path
_SITE = "import sysconfig; print(sysconfig.get_paths()['purelib'])"


class TrainerStep:
    """Make TRL importable beside the platform's packages."""

    name = "Trainer"
    waits_for = "pip"

    def __init__(self, places: Places) -> None:
        self._places = places
        self._venv = places.home / "trainer"

    def needed(self) -> bool:
        """Whether it is missing, or of older locks."""
        return not ((self._venv / "bin" / "python").exists() and lock.stamped(self._venv / _STAMP, self._value()))

    def run(self, say: Say) -> Outcome:
        """Set it up. Raises SetupError."""
        python = self._venv / "bin" / "python"
        say(f"a virtual environment in {self._venv}")
        venvs.make_venv(self._places.venv_python, self._venv, self._places, say)
        shared, own = (answers((str(one), "-c", _SITE)) for one in (self._places.venv_python, python))
        if not shared or not own:
            raise SetupError(f"{python} does not run; remove {self._venv} and run this again.")
        (Path(own) / _SHARED).write_text(shared + "\n", encoding="utf-8")
        say("pip install trl (a minute the first time)")
        arguments = ("--no-deps", "-r", str(self._places.repo / REQUIREMENTS))
        venvs.pip_install(python, arguments, self._places, "Installing the trainer")
        if answers((str(python), "-m", "pip", "check"), timeout=120.0) is None:
            raise SetupError(f"`{python} -m pip check` finds packages that do not fit: the two locks disagree.")
        lock.write_stamp(self._venv / _STAMP, self._value())
        return Outcome("done", str(python))

    def _value(self) -> str:
        return f"{lock.digest(self._places.repo / REQUIREMENTS, self._places.lock)} {self._places.venv}"


def trainer_python(home: Path) -> Path | None:
    """The interpreter of the trainer that set-up left in ``home``, or None."""
    python = home / "trainer" / "bin" / "python"
    return python if (home / "trainer" / _STAMP).is_file() and python.exists() else None


def trainer_env() -> dict[str, str]:
    """What goes over the environment of its processes."""
    return {"PYTHONPATH": str(REPO_ROOT), "TOKENIZERS_PARALLELISM": "true"}
