"""Commands about nights: one run now, and the runs that failed."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from facet_dagster import connect
from facet_dagster.child import run_child
from facet_dagster.cli_output import Json, err, out, say
from facet_dagster.domain.facts import FailureFact, RawSkillFact
from facet_dagster.errors import ConfigError
from facet_dagster.reports.nights import NightReport, last_report
from facet_dagster.settings import Settings, load_settings

SHOWN = 20


def night(
    batch: Annotated[str, typer.Option(help="Label of the night; today's yymmdd when empty.")] = "",
    json_: Json = False,  # noqa: FBT002 - an option's default
) -> None:
    """What the nightly schedule does, now: changed sources in, new seeds through every stage, a dated release out.

    Run it again to go on with one that was killed. Exit code 1: something failed; `said` tells what.
    """
    settings = load_settings()
    ledger, store = connect.open_ledger(settings), connect.open_store(settings)
    if settings.sources is None and not ledger.values(RawSkillFact, "skill"):
        raise ConfigError("There is no skill and no source: set FACET_SOURCES, or run `facet ingest PATH` first")
    before = last_report(ledger, store)
    code = _launch(settings, batch, quiet=json_)
    found = last_report(ledger, store)
    if found is None or found == before:
        raise typer.Exit(code)
    say(found, lambda: _print(found), as_json=json_)
    raise typer.Exit(code)


def _launch(settings: Settings, batch: str, *, quiet: bool) -> int:
    connect.open_sandbox(settings)  # what killed processes left goes while the night starts
    command = [sys.executable, "-m", "facet_dagster.night", "--parent", str(os.getpid())]
    command += ["--batch", batch] if batch else []
    environment = connect.dagster_environment(settings, os.environ)  # noqa: TID251 - a composition root
    return run_child(command, environment, sys.stderr if quiet else None)


def _print(found: NightReport) -> None:
    out.print(f"[bold]Night {found.night}: {found.state}[/bold], {found.seconds:.0f} s, {found.spent:.2f} USD")
    if found.carried:
        out.print(f"  carried on: {', '.join(found.carried)}", markup=False)
    out.print(f"  {found.new_skills} new skills, {found.minted} new seeds, {found.computed} partitions computed")
    for line in found.yields.dropped if found.yields else []:
        text = f"  {line.stage} accepts {line.now.count}/{line.now.of}, before {line.before.count}/{line.before.of}"
        out.print(f"{text}: dropped beyond chance", markup=False)
    if found.health and found.health.lines:
        rotten = ", ".join(line.key for line in found.health.rotten) or "none"
        out.print(f"  {len(found.health.lines)} released tasks replayed, rotten: {rotten}", markup=False)
    if made := found.release:
        diff = made.diff
        text = f"{len(diff.new)} new, {len(diff.changed)} changed, {len(diff.lost)} lost"
        what = f"release {made.folder}: {text}" if made.written else f"nothing changed since {made.name or 'the start'}"
        out.print(f"  {what}", markup=False, soft_wrap=True)
    for sentence in found.said:
        err.print(f"  {sentence}", markup=False, soft_wrap=True)


def failures(json_: Json = False) -> None:  # noqa: FBT002
    """Runs that failed, the last ones first, as the sensor `failed_runs` noted them."""
    ledger = connect.open_ledger(load_settings())
    found = list(reversed(ledger.find(FailureFact)))[:SHOWN]
    say([fact.model_dump(mode="json") for fact in found], lambda: _print_failures(found), as_json=json_)


def _print_failures(found: list[FailureFact]) -> None:
    for fact in found:
        keys = f" {fact.first} to {fact.last}" if fact.first else ""
        out.print(f"{fact.moment}  {', '.join(fact.assets) or fact.job}{keys}", markup=False, soft_wrap=True)
        out.print(f"    {fact.message}", markup=False, soft_wrap=True)
        out.print(f"    run {fact.run}", markup=False, style="dim")
