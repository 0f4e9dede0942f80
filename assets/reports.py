"""Reports as assets whose metadata are the tables: the funnel of the paper's Table 5, and all of them on a page."""

from collections import Counter
from datetime import UTC, datetime

import dagster as dg

from facet_dagster.ports import ArtifactStore, Ledger, TokenCounter
from facet_dagster.reports.attempts import as_last_tried
from facet_dagster.reports.funnel import funnel, funnel_markdown
from facet_dagster.reports.page.home import Home
from facet_dagster.reports.page.page import FILE, main_tables, write
from facet_dagster.reports.rejected import deaths_markdown, rejected
from facet_dagster.settings import Settings

SHOWN = 500  # rows in the web UI; `facet rejected` prints all


@dg.asset(deps=["certificate"], group_name="reports")
def funnel_report(
    settings: dg.ResourceParam[Settings],
    ledger: dg.ResourceParam[Ledger],
    store: dg.ResourceParam[ArtifactStore],
) -> dg.MaterializeResult[None]:
    """Counts and losses of every stage, skills to certified tasks."""
    report = funnel(settings, ledger, store)
    counts = {row.name: row.count for row in report.rows}
    return dg.MaterializeResult(metadata={"funnel": dg.MetadataValue.md(funnel_markdown(report)), **counts})


@dg.asset(deps=["certificate"], group_name="reports")
def rejected_tasks(
    settings: dg.ResourceParam[Settings], ledger: dg.ResourceParam[Ledger]
) -> dg.MaterializeResult[None]:
    """Every rejected seed: stage, reason, blamed component, rounds, cost and a line of evidence."""
    found = rejected(settings, ledger)
    reasons = dict(Counter(one.reason for one in found).most_common())
    shown = {"deaths": dg.MetadataValue.md(deaths_markdown(found, SHOWN)), "reasons": dg.MetadataValue.json(reasons)}
    return dg.MaterializeResult(metadata={**shown, "rejected": len(found), "in the table": min(len(found), SHOWN)})


@dg.asset(deps=["trajectories"], group_name="reports")
def report(
    settings: dg.ResourceParam[Settings],
    ledger: dg.ResourceParam[Ledger],
    store: dg.ResourceParam[ArtifactStore],
    tokens: dg.ResourceParam[TokenCounter],
) -> dg.MaterializeResult[None]:
    """Every table and picture of the paper from this installation's own run: one page, its main tables here."""
    day = datetime.now(UTC).date().isoformat()
    home = Home(as_last_tried(settings, ledger, store), tokens.name, ledger, store, day=day)
    found = write(settings.home / "report", home)
    tables = {name: dg.MetadataValue.md(text) for name, text in main_tables(found).items()}
    page = dg.MetadataValue.path(str(settings.home / "report" / FILE))
    return dg.MaterializeResult(metadata={"page": page, **tables})
