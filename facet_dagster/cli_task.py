"""Commands about one task's texts: which requirement is stated, done and tested where."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from facet_dagster import connect
from facet_dagster.cli_output import Json, out, say
from facet_dagster.reports.coverage import Coverage, coverage_of
from facet_dagster.settings import load_settings


def coverage(
    task: Annotated[str, typer.Argument(help="A seed's key, or any beginning of it that no other has.")],
    json_: Json = False,  # noqa: FBT002 - an option's default
) -> None:
    """Join a task's requirements with skills, instruction, solution, checks and discriminators, both ways.

    Exit code 1 when something is missing on either side.
    """
    settings = load_settings()
    found = coverage_of(task, settings, connect.open_ledger(settings), connect.open_store(settings))
    say(found, lambda: _print(found), as_json=json_)
    raise typer.Exit(1 if found.holes else 0)


def _print(found: Coverage) -> None:
    table = Table(title=f"{found.seed}: {found.title}", title_justify="left")
    for column in ("Requirement", "Skill", "Rules", "Sections", "Steps", "Checks", "Discriminators"):
        table.add_column(column)
    for line in found.requirements:
        parts = (line.rules, line.sections, line.steps, line.checks, line.discriminators)
        table.add_row(f"{line.rid} {line.kind}", line.skill, *(" ".join(map(str, part)) or "none" for part in parts))
    out.print(table)
    for line in found.requirements:
        for operation in line.operations:
            out.print(f"{line.rid} from {operation}", markup=False, soft_wrap=True)
    for hole in found.holes:
        out.print(f"hole: {hole}", markup=False, soft_wrap=True)
    if not found.holes:
        out.print("No holes.")
