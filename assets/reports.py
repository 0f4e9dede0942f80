"""The funnel of the paper's Table 5, as an asset whose metadata is the table, and the checks that it can be true."""

from collections.abc import Sequence

import dagster as dg

from assets._dagster import owner_of
from facet_dagster.ports import ArtifactStore, Ledger
from facet_dagster.reports.funnel import Funnel, funnel, losses_text, share_text
from facet_dagster.reports.funnel_health import orphans, out_of_band, wrong_sums
from facet_dagster.reports.funnel_picture import as_markdown, funnel_picture
from facet_dagster.settings import Settings

SHOWN = 20
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
