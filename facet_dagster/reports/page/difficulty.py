"""R5 and difficulty: P@1 and P@3 by tag, family and origin; tasks to look at (Figure 4)."""

from __future__ import annotations

from collections.abc import Sequence

from facet_dagster.reports.difficulty import Band, Group
from facet_dagster.reports.page import draw
from facet_dagster.reports.page.home import Home
from facet_dagster.reports.page.parts import Part, Picture, Section, Table, rate_text, table
from facet_dagster.reports.page.rollouts import MISSING, PAPER

LOOK = 25  # tasks that the page lists
_BANDS = ("#8f2d2a", "#d9893a", "#c2a83e", "#3a8f6b", "#7a8591")  # from never to always
COLUMNS = ("", "Tasks", "P@1 (95 %)", "P@3 (95 %)", *(f"{band}" for band in Band))


def by_tag(home: Home) -> Section:
    """Figure 4."""
    found = home.difficulty
    parts: list[Part] = []
    if found.tags:
        parts = [_picture(found.tags, found.overall), _table("The most frequent tags, by rate", found.tags)]
    missing = MISSING if not home.tasks else "" if parts else "The skills of these tasks have no tags."
    return Section(
        "tags",
        "Pass rate by skill tag",
        "Figure 4",
        f"a task has the tags of both its skills; the 20 most frequent tags, ordered by rate; {home.tried}",
        f"{PAPER}; the 20 most frequent tags; overall 20.94 %",
        tuple(parts),
        missing,
    )


def _picture(groups: Sequence[Group], overall: Group) -> Picture:
    shares = {group.name: 100 * (group.p1.rate or 0.0) for group in groups}
    bounds = {group.name: (100 * (group.p1.low or 0.0), 100 * (group.p1.high or 0.0)) for group in groups}
    whole = 100 * (overall.p1.rate or 0.0)
    line = (whole, f"overall {whole:.1f} %")
    alt = "; ".join(f"{name} {share:.1f} %" for name, share in shares.items())
    return draw.bars("P@1 with 95 % intervals (Wilson)", alt, shares, bounds=bounds, line=line)


def difficulty(home: Home) -> Section:
    """All, families, origins, bands, and the tasks at either end."""
    found = home.difficulty
    groups = (found.overall, *found.origins, *found.families)
    parts: list[Part] = []
    if home.tasks:
        bands = {group.name: _shares(group) for group in groups}
        alt = f"{found.overall.tasks} tasks by how many of their attempts succeed"
        parts = [
            draw.stacked("Tasks by how often they are solved", alt, bands, unit="% of tasks", colours=_BANDS),
            _table("In all, by origin and by family", groups),
            *_look(home),
        ]
    return Section(
        "difficulty",
        "Difficulty",
        "Table 1 and Table 10 for P@1 and P@3; bands are ours",
        "P@1: attempts solved of those judged; P@3: tasks that one of the first three attempts solved, of those with"
        " three (attempts on one task are not independent: P@1's interval is at least as wide as shown);"
        f" {home.tried}",
        "100 tasks and three attempts (Table 1): P@1 27.00 %, P@3 35.00 %; on 350 tasks (Table 10): 25.1 % and 33.1 %",
        tuple(parts),
        "" if home.tasks else MISSING,
    )


def _shares(group: Group) -> dict[str, float]:
    return {band: 100 * count / group.tasks for band, count in group.bands.items()}


def _table(title: str, groups: Sequence[Group]) -> Table:
    rows = [
        (group.name, group.tasks, rate_text(group.p1), rate_text(group.p3), *group.bands.values()) for group in groups
    ]
    return table(title, COLUMNS, rows)


def _look(home: Home) -> list[Part]:
    look = home.difficulty.look
    rows = [(one.key, f"{one.solved} of {one.attempts}", one.family, one.origin, one.why) for one in look[:LOOK]]
    title = f"To look at: {len(look):,} tasks that no attempt, or every one, solved"
    more = f", of which {LOOK} are shown; `facet difficulty --json` lists all" if len(look) > LOOK else ""
    return (
        [table(title + more, ("Task", "Solved", "Family", "Origin", "Question"), rows, texts=(2, 3, 4))] if look else []
    )
