"""Commands that keep an installation: backup, restore, and what may go."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from facet_dagster import connect
from facet_dagster.cli_output import Json, err, out, say
from facet_dagster.errors import LedgerError
from facet_dagster.settings import Settings, load_settings
from facet_dagster.upkeep.backup import Whole
from facet_dagster.upkeep.backup import backup as make_backup
from facet_dagster.upkeep.backup import restore as read_backup
from facet_dagster.upkeep.tidy import tidy as tidy_artifacts

MIB = 2**20
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would go, and remove nothing.")]


def backup(
    target: Annotated[Path, typer.Argument(help="A file, or a folder in which a dated one is made.")],
    json_: Json = False,  # noqa: FBT002 - an option's default
) -> None:
    """Write the ledger as it is now and every artifact into one file, which appears when it is whole.

    Runs may go on meanwhile. Exit code 1 when an artifact could not be read: it is named and left out.
    """
    settings = load_settings()
    file, whole = make_backup(connect.open_copy(settings), connect.open_store(settings), target)
    data = {"file": str(file), **_numbers(whole), "unread": list(whole.unread)}
    say(data, lambda: out.print(f"{file}: {_text(whole)}", markup=False, soft_wrap=True), as_json=json_)
    for sha in whole.unread:
        err.print(f"Artifact {sha} is gone or damaged, so the backup lacks it", soft_wrap=True)
    raise typer.Exit(1 if whole.unread else 0)


def restore(file: Path, json_: Json = False) -> None:  # noqa: FBT002
    """Fill this empty home (FACET_HOME) with what `facet backup` wrote. Refused when its ledger has rows."""
    settings = load_settings()
    ledger = connect.open_copy(settings)
    whole = read_backup(file, ledger, connect.open_store(settings), settings.home)
    say(_numbers(whole), lambda: out.print(f"Restored {_text(whole)}", soft_wrap=True), as_json=json_)


def _numbers(whole: Whole) -> dict[str, int]:
    return {"rows": whole.rows, "artifacts": whole.artifacts, "bytes": whole.bytes}


def _text(whole: Whole) -> str:
    return f"{whole.rows} rows of the ledger, {whole.artifacts} artifacts ({whole.bytes / MIB:.1f} MiB)"


def tidy(dry_run: DryRun = False, json_: Json = False) -> None:  # noqa: FBT002
    """Remove old artifacts that nothing names (FACET_ARTIFACT_DAYS) and superseded runs of Dagster (FACET_RUN_DAYS).

    What a row of the ledger names stays, whether it is current or not.
    """
    settings = load_settings()
    days = settings.artifact_days
    done = tidy_artifacts(connect.open_copy(settings), connect.open_store(settings), days=days, dry_run=dry_run)
    runs = _superseded(settings, dry_run=dry_run)
    data = {"dry_run": dry_run, "artifacts": done.model_dump(mode="json"), "runs": runs}
    verb = "Would remove" if dry_run else "Removed"

    def text() -> None:
        artifacts = f"{len(done.removed)} of {done.artifacts} artifacts ({done.bytes / MIB:.1f} MiB)"
        out.print(f"{verb} {artifacts}; {done.young} that nothing names are younger than {days:g} days")
        events = f"{runs['events']} events, {runs['bytes'] / MIB:.1f} MiB"
        out.print(f"{verb} {len(runs['runs'])} superseded runs ({events}); {runs['kept']} as old are still shown")

    say(data, text, as_json=json_)


def _superseded(settings: Settings, *, dry_run: bool) -> dict[str, Any]:
    """By a child, which may import Dagster."""
    command = [sys.executable, "-m", "resources.retention", "--days", str(settings.run_days)]
    environment = connect.dagster_environment(settings, os.environ)  # noqa: TID251 - a composition root
    done = subprocess.run(
        [*command, *(["--dry-run"] if dry_run else [])], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = next(reversed(done.stderr.strip().splitlines()), "")
        raise LedgerError(f"Dagster's runs cannot be tidied: {last[:300]}. The artifacts were.")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found
