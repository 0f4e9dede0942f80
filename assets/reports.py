"""Reports as assets: the paper's Table 5 with checks that it can be true, what was rejected, and all on one page."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

import dagster as dg

from assets._dagster import owner_of
from facet_dagster.ports import ArtifactStore, Ledger, TokenCounter
from facet_dagster.reports.attempts import as_last_tried
from facet_dagster.reports.funnel import Funnel, funnel, losses_text, share_text
from facet_dagster.reports.funnel_health import orphans, out_of_band, wrong_sums
from facet_dagster.reports.funnel_picture import as_markdown, funnel_picture
from facet_dagster.reports.page.home import Home
from facet_dagster.reports.page.page import FILE, main_tables, write
from facet_dagster.reports.rejected import deaths_markdown, rejected
from facet_dagster.settings import Settings

SHOWN = 20
ROWS = 500  # in the web UI; `facet rejected` prints all
_COLUMNS = dg.TableSchema(
    columns=[
        dg.TableColumn("stage", "string", "row of the paper's Table 5"),
        dg.TableColumn("count", "int"),
        dg.TableColumn("share", "string", "of the row that it is compared with"),
        dg.TableColumn("losses", "string", "reasons of rejections, with counts"),
    ]
)
CHECKS = {
    "counts_add_up": "Is every seed accounted for at every stage, and none past a stage that stopped it?",
    "no_orphan": "Do seeds, partitions, skills, candidates, results and artifacts all know each other?",
    "shares_as_expected": "Is the share that passes each stage about as large as in the paper (Table 5)?",
}


@dg.asset(
    deps=["certificate"],
    group_name="reports",
    owners=[owner_of("reports")],
    kinds={"postgres", "matplotlib"},
    check_specs=[dg.AssetCheckSpec(name, asset="funnel_report", description=text) for name, text in CHECKS.items()],
)
def funnel_report(
    context: dg.AssetExecutionContext,
    settings: dg.ResourceParam[Settings],
    ledger: dg.ResourceParam[Ledger],
    store: dg.ResourceParam[ArtifactStore],
) -> dg.MaterializeResult:  # type: ignore[type-arg]  # Dagster knows the bare name only
    """Counts and losses of every stage, skills to certified tasks (paper, Table 5), and whether they can be true."""
    report, partitions = funnel(settings, ledger, store), context.instance.get_dynamic_partitions("seed")
    found = [wrong_sums(settings, ledger), orphans(settings, ledger, store, partitions), out_of_band(report)]
    checks = [_check(name, problems) for name, problems in zip(CHECKS, found, strict=True)]
    return dg.MaterializeResult(metadata=shown(report), check_results=checks)


def shown(report: Funnel) -> dict[str, dg.MetadataValue]:
    """A table, a small picture, and each count by itself, so that the web UI plots it over time."""
    records = [
        dg.TableRecord(
            {"stage": row.label, "count": row.count, "share": share_text(report, row), "losses": losses_text(row)}
        )
        for row in report.rows
    ]
    return {
        "funnel": dg.MetadataValue.table(records, schema=_COLUMNS),
        "plot": dg.MetadataValue.md(as_markdown(funnel_picture(report))),
        **{row.name: dg.MetadataValue.int(row.count) for row in report.rows},
    }


def _check(name: str, problems: Sequence[str]) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name=name,
        passed=not problems,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{len(problems)} problems. {problems[0]}" if problems else "Yes.",
        metadata={"problems": dg.MetadataValue.json(list(problems[:SHOWN]))},
    )


@dg.asset(deps=["certificate"], group_name="reports", owners=[owner_of("reports")], kinds={"postgres"})
def rejected_tasks(
    settings: dg.ResourceParam[Settings], ledger: dg.ResourceParam[Ledger]
) -> dg.MaterializeResult[None]:
    """Every rejected seed: stage, reason, blamed component, rounds, cost and a line of evidence."""
    found = rejected(settings, ledger)
    reasons = dict(Counter(one.reason for one in found).most_common())
    shown = {"deaths": dg.MetadataValue.md(deaths_markdown(found, ROWS)), "reasons": dg.MetadataValue.json(reasons)}
    return dg.MaterializeResult(metadata={**shown, "rejected": len(found), "in the table": min(len(found), ROWS)})


@dg.asset(deps=["trajectories"], group_name="reports", owners=[owner_of("reports")], kinds={"postgres", "matplotlib"})
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
