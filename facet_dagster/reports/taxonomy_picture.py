"""Figure 3a for the user's skills: each family and category as a bar, the paper's share as a mark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from facet_dagster.domain.taxonomy import Family
from facet_dagster.reports.taxonomy import Line, Taxonomy

COLOURS = {
    Family.AI: "#4269d0",
    Family.SOFTWARE: "#3a8f6b",
    Family.DATA: "#c9892b",
    Family.DOCUMENTS: "#a463a8",
    Family.MULTIMEDIA: "#d0504a",
}
INCHES = (10.0, 11.0)
STABLE = {"Date": None}  # no time in the file: the same skills give the same bytes


def draw(found: Taxonomy, paths: Sequence[Path]) -> None:
    """One picture in each of the formats that the paths end in. Raises OSError."""
    figure = figure_of(found)
    with rc_context({"svg.hashsalt": "taxonomy"}):
        for path in paths:
            figure.savefig(path, dpi=120, metadata=STABLE if path.suffix == ".svg" else None)


def figure_of(found: Taxonomy) -> Figure:
    """Families above, categories below."""
    figure = Figure(figsize=INCHES, layout="constrained")
    above, below = figure.subplots(2, 1, height_ratios=[1, 6])
    _bars(above, found.families)
    _bars(below, found.categories)
    figure.suptitle(f"{found.skills:,} skills by family and category")
    below.set_xlabel("share of all skills, %; the mark is the paper's (71,341 skills; four categories have none)")
    return figure


def _bars(axes: Any, lines: Sequence[Line]) -> None:
    places = range(len(lines))
    axes.barh(places, [100 * line.share for line in lines], color=[COLOURS[line.family] for line in lines], height=0.7)
    marked = [(100 * line.paper_share, place) for place, line in enumerate(lines) if line.paper_share is not None]
    axes.scatter(*zip(*marked, strict=True), marker="|", s=120, color="#222222", zorder=3)
    names = [f"{line.title}{' (ours)' if line.ours else ''}" for line in lines]
    axes.set_yticks(places, names, fontsize=8)
    axes.margins(y=0.01)
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
