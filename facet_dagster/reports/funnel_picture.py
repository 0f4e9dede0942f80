"""The funnel as a small picture."""

from __future__ import annotations

import base64
from io import BytesIO

from matplotlib.figure import Figure

from facet_dagster.reports.funnel import Funnel

MOST_BYTES = 60_000  # it is stored with every materialization


def funnel_picture(report: Funnel) -> bytes:
    """PNG of at most 60 kB: one bar a row, the part that was lost beside it."""
    rows = [row for row in reversed(report.rows) if row.name != "hypotheses"]
    figure = Figure(figsize=(7, 0.28 * len(rows) + 0.6), dpi=80, layout="tight")
    axes = figure.add_subplot()
    whole = [report.count(row.of) if row.of else row.count for row in rows]
    labels = [row.label for row in rows]
    axes.barh(labels, whole, color="#dddddd")
    bars = axes.barh(labels, [row.count for row in rows], color="#4477aa")
    axes.bar_label(bars, fontsize=7, padding=2)
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    out = BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue() if len(out.getvalue()) <= MOST_BYTES else b""


def as_markdown(picture: bytes) -> str:
    return f"![funnel](data:image/png;base64,{base64.b64encode(picture).decode()})" if picture else "(too large)"
