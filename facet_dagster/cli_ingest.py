"""The `facet` verb that collects skills."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer
from rich.table import Table

from facet_dagster import connect
from facet_dagster.cli_output import Json, err, out, say
from facet_dagster.errors import ConfigError
from facet_dagster.pipeline.corpus import withdraw
from facet_dagster.pipeline.ingest import Ingested, ingest_sources
from facet_dagster.pipeline.policy import policy_of
from facet_dagster.pipeline.sources import sources_of
from facet_dagster.settings import load_settings

From = Annotated[str, typer.Argument(metavar="[SOURCE]", help="Empty: the file named by FACET_SOURCES.")]


def ingest(source: From = "", json_: Json = False) -> None:  # noqa: FBT002 - an option's default
    """Collect every SKILL.md of SOURCE: a folder, a .parquet or .jsonl table, a repository, a sources.yaml."""
    settings = load_settings()
    named = source or str(settings.sources or "")
    if not named:
        raise ConfigError("Name a folder, a table, a repository or a sources.yaml, or set FACET_SOURCES.")
    ledger = connect.open_ledger(settings)
    report = ingest_sources(
        sources_of(named),
        open_source=partial(connect.open_source, settings),
        ledger=ledger,
        store=connect.open_store(settings),
        policy=policy_of(settings),
        presence=lambda ids, there: withdraw(ids, ledger, present=there),
    )
    say(report, lambda: _print(report), as_json=json_)
    for one in report.sources:
        for problem in one.problems:
            err.print(f"{one.source}: {problem}", markup=False, soft_wrap=True)
        if one.error:
            err.print(f"{one.source}: {one.error}", markup=False, soft_wrap=True)
    if report.errors:
        count = len(report.errors)
        raise ConfigError(
            f"{count} of {len(report.sources)} sources could not be read to the end: run again for the rest."
        )


def _print(report: Ingested) -> None:
    table = Table(title=f"{report.rows} skills seen", title_justify="left")
    table.add_column("Outcome")
    table.add_column("Count", justify="right")
    for outcome, count in sorted(report.outcomes.items(), key=lambda item: (-item[1], item[0])):
        table.add_row(outcome, str(count))
    out.print(table)
    out.print(
        f"{report.new} new skills, {report.total} in all; duplicates are found when the asset skills is computed."
    )
