"""Phase 2: the steps that need the virtual environment's packages."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from rich.console import Console

from facet_dagster.setup.browser import BrowserStep
from facet_dagster.setup.engine import EngineStep
from facet_dagster.setup.harbor import HarborStep
from facet_dagster.setup.images import DEFAULT_BASE, SECOND_BASE, BaseImageStep
from facet_dagster.setup.paths import Places
from facet_dagster.setup.project import ProjectStep, torch_line
from facet_dagster.setup.steps import Step, run_steps
from facet_dagster.setup.trainer import TrainerStep


def steps(places: Places, extras: AbstractSet[str]) -> list[Step]:
    """The steps of a set-up, in the order in which they build on each other."""
    chosen: list[Step] = [ProjectStep(places), EngineStep(places), BaseImageStep(places, DEFAULT_BASE)]
    if "second-base" in extras:
        chosen.append(BaseImageStep(places, SECOND_BASE))
    if "harbor" in extras:
        chosen.append(HarborStep(places))
    if "browser" in extras:
        chosen.append(BrowserStep(places))
    if "trainer" in extras:
        chosen.append(TrainerStep(places))
    return chosen


def run(places: Places, extras: AbstractSet[str]) -> None:
    """Run them all. Raises SetupError."""
    # Never wrapped, so that a path in a log can be copied.
    console = Console(soft_wrap=True, highlight=False)
    console.print(torch_line())
    run_steps(steps(places, extras), console)
