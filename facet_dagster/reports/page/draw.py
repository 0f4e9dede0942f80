"""Pictures as SVG in a data URI: the same numbers give the same bytes, and no text of theirs is markup."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from facet_dagster.reports.page.parts import Picture

OURS, PAPER, SECOND, INK = "#2f6db3", "#1b1f24", "#d9893a", "#5b636b"
COLOURS = ("#2f6db3", "#d9893a", "#3a8f6b", "#a463a8", "#c9504a", "#7a8591", "#c2a83e", "#57a3b8")
WIDTH = 8.0
STYLE: Any = {
    "svg.hashsalt": "report",
    "svg.fonttype": "path",
    "text.parse_math": False,  # a dollar in a name is a dollar
    "font.size": 9.0,
    "axes.edgecolor": "#b9bfc5",
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": "#1b1f24",
    "legend.frameon": False,
}
_DRAWN = re.compile(r"[^\n\x20-\x7e\u00a0-\u024f\u2010-\u2027]")
LABEL = 48


def label(text: object) -> str:
    """A name as the picture's font can draw it, not longer than fits, in at most two lines."""
    shown = _DRAWN.sub("?", str(text).replace("\n", " ", str(text).count("\n") - 1))
    return shown if len(shown) <= LABEL else shown[: LABEL - 3] + "..."


def picture(title: str, alt: str, height: float, plot: Any, width: float = WIDTH) -> Picture:
    """What ``plot`` draws on a figure's axes; sizes in inches."""
    with rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots()
        axes.spines[["top", "right"]].set_visible(False)
        plot(axes)
        written = io.BytesIO()
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    return Picture(title, uri(written.getvalue(), "image/svg+xml"), alt)


def uri(data: bytes, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _intervals(axes: Any, values: Mapping[str, float], bounds: Mapping[str, tuple[float, float]]) -> None:
    known = [(place, name) for place, name in enumerate(values) if name in bounds]
    spread = [(values[name] - bounds[name][0], bounds[name][1] - values[name]) for _, name in known]
    if known:
        axes.errorbar(
            [values[name] for _, name in known], [place for place, _ in known], xerr=list(zip(*spread, strict=True)),
            fmt="none", ecolor="#1b1f24", elinewidth=1, capsize=2.5, zorder=3,
        )  # fmt: skip


def bars(
    title: str,
    alt: str,
    values: Mapping[str, float],
    *,
    marks: Mapping[str, float] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    line: tuple[float, str] | None = None,
    unit: str = "%",
    colours: Sequence[str] = (),
    note: str = "",
    digits: int = 1,
) -> Picture:
    """Bars, the first on top; ``marks`` are the paper's, ``bounds`` intervals, ``line`` is dashed."""
    names, marks = list(values), marks or {}

    def plot(axes: Any) -> None:
        places = range(len(names))
        axes.barh(places, [values[n] for n in names], color=list(colours) or OURS, height=0.66, zorder=2)
        _intervals(axes, values, bounds or {})
        told = [(marks[n], place) for place, n in enumerate(names) if n in marks]
        if told:
            axes.scatter(
                *zip(*told, strict=True), marker="|", s=150, linewidths=2.2, color=PAPER, zorder=4, label="paper"
            )
        if line:
            axes.axvline(line[0], color=SECOND, linestyle="--", linewidth=1.4, zorder=1, label=line[1])
        ends = [max(values[n], bounds[n][1] if bounds and n in bounds else 0, marks.get(n, 0)) for n in names]
        for place, name in enumerate(names):
            axes.annotate(
                f"{values[name]:,.{digits}f}", (ends[place], place), xytext=(5, 0), textcoords="offset points",
                va="center", fontsize=8, color=INK,
            )  # fmt: skip
        axes.set_yticks(places, [label(n) for n in names])
        axes.set_xlabel(" ".join(filter(None, [unit, note])))
        axes.set_xlim(0, max([*ends, line[0] if line else 0, 1e-9]) * 1.12)
        axes.margins(y=0.02)
        axes.invert_yaxis()
        axes.grid(axis="x", color="#eceeed", zorder=0)
        if told or line:
            axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, fontsize=8)

    return picture(title, alt, 0.9 + 0.27 * max(len(names), 1), plot)


def columns(
    title: str, alt: str, names: Sequence[str], groups: Mapping[str, Sequence[float]], *, unit: str, note: str = ""
) -> Picture:
    """Columns side by side for each name: one of each group."""

    def plot(axes: Any) -> None:
        wide = min(0.8 / max(len(groups), 1), 0.12 * max(len(names), 2))
        form = "%.1f" if any(value % 1 for values in groups.values() for value in values) else "%.0f"
        for number, (name, values) in enumerate(groups.items()):
            places = [n + wide * (number + 0.5 - len(groups) / 2) for n in range(len(names))]
            colour = PAPER if name.startswith("paper") else COLOURS[number % len(COLOURS)]
            drawn = axes.bar(places, values, wide * 0.92, color=colour, label=label(name), zorder=2)
            if len(names) * len(groups) <= 30:
                axes.bar_label(drawn, fmt=form, fontsize=7, color=INK, padding=1)
        axes.set_xticks(range(len(names)), [label(n) for n in names], fontsize=8)
        axes.set_xlim(-0.6, max(len(names), 2) - 0.4)
        axes.set_ylabel(unit)
        axes.set_xlabel(note)
        axes.grid(axis="y", color="#eceeed", zorder=0)
        if len(groups) > 1:
            axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=len(groups), fontsize=8)

    return picture(title, alt, 3.0, plot)


def histogram(
    title: str, alt: str, values: Sequence[float], *, unit: str, line: tuple[float, str] | None = None, bins: int = 30
) -> Picture:
    """How often values occur."""

    def plot(axes: Any) -> None:
        axes.hist(values, bins=bins, color=OURS, zorder=2)
        if line:
            axes.axvline(line[0], color=SECOND, linestyle="--", linewidth=1.4, label=line[1], zorder=3)
            axes.legend(loc="lower right", bbox_to_anchor=(1, 1), fontsize=8)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel(unit)
        axes.set_ylabel("how many")
        axes.grid(axis="y", color="#eceeed", zorder=0)

    return picture(title, alt, 2.8, plot)


def stacked(
    title: str,
    alt: str,
    groups: Mapping[str, Mapping[str, float]],
    *,
    unit: str,
    colours: Sequence[str] = COLOURS,
) -> Picture:
    """One bar for each group, made of its parts in percent, with a legend below."""

    def plot(axes: Any) -> None:
        parts = list(dict.fromkeys(part for of in groups.values() for part in of))
        starts = [0.0] * len(groups)
        for number, part in enumerate(parts):
            widths = [of.get(part, 0.0) for of in groups.values()]
            colour = colours[number % len(colours)]
            axes.barh(range(len(groups)), widths, left=starts, color=colour, label=label(part), height=0.62)
            for place, (start, wide) in enumerate(zip(starts, widths, strict=True)):
                if wide >= 6:
                    axes.text(start + wide / 2, place, f"{wide:.0f}", ha="center", va="center", color="w", fontsize=8)
            starts = [start + wide for start, wide in zip(starts, widths, strict=True)]
        axes.set_yticks(range(len(groups)), [label(n) for n in groups])
        axes.set_xlabel(unit)
        axes.invert_yaxis()
        axes.figure.legend(loc="outside lower center", ncols=3, fontsize=8)

    return picture(title, alt, 1.5 + 0.34 * len(groups), plot)


def grid(title: str, alt: str, names: Sequence[str], shares: Sequence[Sequence[float]]) -> Picture:
    """A square of shares (0 to 1), rows summing to 1: from the name at the left to the one below."""

    def plot(axes: Any) -> None:
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        for y, row in enumerate(shares):
            for x, share in enumerate(row):
                shown = f"{100 * share:.1f} %" if any(row) else "-"
                axes.text(x, y, shown, ha="center", va="center", color="w" if share > 0.55 else "k")
        axes.set_xticks(range(len(names)), names)
        axes.set_yticks(range(len(names)), names)
        axes.set_xlabel("next turn")
        axes.set_ylabel("turn")
        axes.spines[:].set_visible(False)

    return picture(title, alt, 2.9, plot, width=6.0)
