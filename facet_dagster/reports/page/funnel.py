"""R1: how many came how far (Table 5)."""

from __future__ import annotations

from facet_dagster.reports.funnel import losses_text
from facet_dagster.reports.page import draw, paper
from facet_dagster.reports.page.home import Home
from facet_dagster.reports.page.parts import Note, Picture, Section, cell, percent, table
from facet_dagster.reports.statistics import Rate, rate


def section(home: Home) -> Section:
    """Counts, retention, losses."""
    report, empty = home.funnel, not home.seeds
    rows = []
    for row in report.rows:
        share = report.share(row)
        known = rate(row.count, report.count(row.of)) if row.of and report.count(row.of) >= row.count else None
        bounds = "" if known is None else interval(known)
        printed = paper.FUNNEL_SHARES.get(row.name)
        told = "" if printed is None else f"{printed:.2f} %"
        of = next((one.label for one in report.rows if one.name == row.of), "")
        ours = (row.label, row.count, percent(share), bounds, of)
        rows.append((*ours, paper.FUNNEL.get(row.name), told, losses_text(row)))
    names = ("Stage", "Count", "Retained", "95 %", "of those", "Paper", "Paper, retained", "Losses")
    parts = [] if empty else [_picture(home)]
    lines = table("From skills to certified tasks", names, rows, texts=(4, 7))
    return Section(
        "funnel",
        "Funnel",
        "Table 5",
        home.made,
        "7,852 seeds from 71,341 skills; DeepSeek-V4-Pro; 3 environment and 5 task repairs; no certificates",
        (*parts, lines, *_recovery(home)),
        "No seed was selected yet: `facet run` makes the funnel." if empty else "",
    )


def interval(found: Rate) -> str:
    return "" if found.low is None or found.high is None else f"{100 * found.low:.1f}-{100 * found.high:.1f}"


def _picture(home: Home) -> Picture:
    shares = {
        row.label: 100 * share
        for row in home.funnel.rows
        if row.name in paper.FUNNEL_SHARES and (share := home.funnel.share(row)) is not None
    }
    marks = {row.label: paper.FUNNEL_SHARES[row.name] for row in home.funnel.rows if row.label in shares}
    alt = "; ".join(f"{name} {share:.1f} %" for name, share in shares.items())
    note = "of the stage before that is compared with"
    return draw.bars("Retention", alt, shares, marks=marks, note=note)


def _recovery(home: Home) -> tuple[Note, ...]:
    count = home.funnel.count
    failed = count("first_builds") - count("first_build_ok")
    invalid = count("entering_validation") - count("first_pass_valid")
    good = count("validated")
    if not count("first_builds"):
        return ()
    share = percent(count("task_repaired") / good if good else None)
    return (
        Note(
            f"Repairs recovered {cell(count('environment_repaired'))} of {cell(failed)} environments that failed at"
            f" first (paper: 874 of 1,211, 72.2 %) and {cell(count('task_repaired'))} of {cell(invalid)} tasks (paper:"
            f" 3,222 of 4,590, 70.2 %); {share or 'none'} of the validated tasks come from repair (paper: 53.0 %)."
        ),
    )
