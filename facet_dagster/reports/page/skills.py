"""R2 and R3: what the skills are about, and the tasks (Tables 3 and 4, Figure 3)."""

from __future__ import annotations

import io
from collections import Counter

from matplotlib import rc_context

from facet_dagster.domain.seed import TaskFamily
from facet_dagster.errors import ConfigError
from facet_dagster.reports.page import draw, paper
from facet_dagster.reports.page.home import Home, counted
from facet_dagster.reports.page.parts import Picture, Section, percent, table
from facet_dagster.reports.taxonomy import Line, Taxonomy, taxonomy_of
from facet_dagster.reports.taxonomy_picture import STABLE, figure_of


def taxonomy(home: Home) -> Section:
    """Families and categories of the kept skills."""
    title, source = "Skills by family and category", "Tables 3 and 4, Figure 3a"
    paper_ = "71,341 skills from OpenClaw, ClawHub and GitHub; it names 30 of its 34 categories"
    ours = "kept skills of the whole corpus, classified without a model (docs/taxonomy.md)"
    try:
        found = taxonomy_of(home.settings, home.ledger, home.store)
    except ConfigError as error:
        return Section("skills", title, source, ours, paper_, missing=str(error))
    names = ("Family or category", "Skills", "Share", "Within family", "Paper", "Paper, share", "Paper, within")
    families = table("Families", names, [_line(line) for line in found.families])
    categories = table("Categories", names, [_line(line) for line in found.categories])
    return Section("skills", title, source, ours, paper_, (_picture(found), families, categories))


def _line(line: Line) -> tuple[object, ...]:
    name = f"{line.title} (name ours)" if line.ours else line.title
    printed = (line.paper_skills, percent(line.paper_share, 2), percent(line.paper_within, 2))
    return (name, line.skills, percent(line.share, 2), percent(line.within, 2), *printed)


def _picture(found: Taxonomy) -> Picture:
    written = io.BytesIO()
    figure = figure_of(found)
    with rc_context(draw.STYLE):
        figure.savefig(written, format="svg", metadata=STABLE)
    alt = "; ".join(f"{line.title} {100 * line.share:.1f} %" for line in found.families)
    return Picture("Share of skills", draw.uri(written.getvalue(), "image/svg+xml"), alt)


def task_families(home: Home) -> Section:
    """Certified tasks by the nine families."""
    counts = Counter(home.about[key].family for key in home.accepted("certificate") if key in home.about)
    shares = counted({family: counts[family] for family in TaskFamily})
    rows = [
        (family, counts[family], f"{shares.get(family, 0.0):.2f} %", f"{paper.TASK_FAMILIES[family]:.2f} %")
        for family in TaskFamily
    ]
    parts = [table("Certified tasks by family", ("Family", "Tasks", "Share", "Paper"), rows)]
    pictures = []
    if shares:
        marks = {str(family): share for family, share in paper.TASK_FAMILIES.items()}
        alt = "; ".join(f"{name} {share:.1f} %" for name, share in shares.items())
        pictures = [draw.bars("Share of tasks", alt, shares, marks=marks, note="of certified tasks")]
    return Section(
        "families",
        "Tasks by family",
        "Figure 3b",
        f"certified tasks, by the family that their scenario states; {home.made}",
        "6,078 validated tasks; values read from the figure",
        (*pictures, *parts),
        "" if shares else "No task is certified yet: `facet run` makes them.",
    )
