"""A browser for the tests that look at the pages as a person would."""

from __future__ import annotations

import shutil
from pathlib import Path

from facet_dagster.setup import apt
from facet_dagster.setup.errors import SetupError
from facet_dagster.setup.paths import Places
from facet_dagster.setup.steps import Outcome, Say

_COMMANDS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium() -> Path | None:
    """The chromium (or chrome) on PATH, or None."""
    found = (shutil.which(command) for command in _COMMANDS)
    return next((Path(path) for path in found if path is not None), None)


class BrowserStep:
    """Install Debian's chromium where none is on PATH and that is possible."""

    name = "Chromium"
    waits_for = "a browser"

    def __init__(self, places: Places) -> None:
        self._places = places

    def needed(self) -> bool:
        """Whether there is no browser."""
        return chromium() is None

    def run(self, say: Say) -> Outcome:
        """Install it; where that is impossible the browser tests have nothing to run in, which is told."""
        say("apt-get install chromium")
        try:
            apt.install(self._places, ("chromium",), purpose="The browser test")
        except SetupError as error:
            return Outcome("unavailable", str(error))
        return Outcome("done", str(chromium()))
