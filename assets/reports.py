"""The funnel of the paper's Table 5, as an asset whose metadata is the table."""

import dagster as dg

from facet_dagster.ports import ArtifactStore, Ledger
from facet_dagster.reports.funnel import funnel, funnel_markdown
from facet_dagster.settings import Settings


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
