"""The project itself in its virtual environment: importable, with its `facet` command."""

from __future__ import annotations

import importlib.metadata

from facet_dagster.setup import lock, venvs
from facet_dagster.setup.errors import SetupError
from facet_dagster.setup.paths import Places
from facet_dagster.setup.steps import Outcome, Say


class ProjectStep:
    """Install this checkout as an editable package, without its dependencies."""

    name = "This project"
    waits_for = "pip"

    def __init__(self, places: Places) -> None:
        self._places = places
        self._pyproject = places.repo / "pyproject.toml"
        self._stamp = places.venv / "facet-project.sha256"

    def needed(self) -> bool:
        """Whether pyproject.toml changed since, or the command is missing. Raises SetupError without the file."""
        if not self._pyproject.is_file():
            raise SetupError(f"{self._pyproject} is missing; restore it from the repository and run this again.")
        command = self._places.venv / "bin" / "facet"
        return not (command.exists() and lock.stamped(self._stamp, self._value()))

    def run(self, say: Say) -> Outcome:
        """Install it. Raises SetupError."""
        say("pip install --editable")
        arguments = ("--no-deps", "--editable", str(self._places.repo))
        venvs.pip_install(self._places.venv_python, arguments, self._places, "Installing this project")
        lock.write_stamp(self._stamp, self._value())
        return Outcome("done", f"command {self._places.venv / 'bin' / 'facet'}")

    def _value(self) -> str:
        # The path counts too: a copied checkout must not run the code of its original.
        return f"{lock.digest(self._pyproject)} {self._places.repo}"


def torch_line() -> str:
    """Which torch wheel is installed and how large it is on disk, with the GPU libraries that it brought."""
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return "torch is not installed"
    size = _size("torch")
    local = version.partition("+")[2]
    kind = f"a {local.upper()} wheel" if local else "the index's own wheel"
    gpu = [str(found.metadata["Name"]) for found in importlib.metadata.distributions() if _is_gpu(found)]
    brought = f", and {len(gpu)} GPU libraries of {sum(map(_size, gpu)) / 1e6:,.0f} MB" if gpu else ""
    return f"torch {version}, {kind}: {size / 1e6:,.0f} MB on disk{brought}"


def _is_gpu(found: importlib.metadata.Distribution) -> bool:
    return str(found.metadata["Name"]).startswith(("nvidia-", "triton", "cuda-"))


def _size(name: str) -> int:
    return sum(file.size or 0 for file in importlib.metadata.files(name) or ())
