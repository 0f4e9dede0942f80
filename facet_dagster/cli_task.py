"""Commands about one task's texts: which requirement is stated, done and tested where."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from facet_dagster import connect
from facet_dagster.cli_output import Json, out, say
from facet_dagster.domain.scenario import MODULES
from facet_dagster.errors import ConfigError
from facet_dagster.reports.coverage import Coverage, coverage_of, scenario_of
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


def scenario(
    task: Annotated[str, typer.Argument(help="A seed's key, or any beginning of it that no other has.")],
    module: Annotated[str, typer.Option(help=f"One of {', '.join(MODULES)}; all when not given.")] = "",
    json_: Json = False,  # noqa: FBT002 - an option's default
) -> None:
    """The modules of a seed's scenario, from the analysis of its skills to the alignment of both references."""
    settings = load_settings()
    found = scenario_of(task, settings, connect.open_ledger(settings), connect.open_store(settings)).modules()
    if module and module not in found:
        raise ConfigError(f"There is no module {module!r}; this scenario has {', '.join(found)}")
    shown = {name: data for name, data in found.items() if module in ("", name)}
    say(shown, lambda: _print_modules(shown), as_json=json_)


def _print_modules(shown: Mapping[str, Any]) -> None:
    for name, data in shown.items():
        out.print(f"[bold]{name}[/bold]")
        out.print(json.dumps(data, ensure_ascii=False, indent=1), markup=False, soft_wrap=True)


def _print(found: Coverage) -> None:
    table = Table(title=escape(f"{found.seed}: {found.title}"), title_justify="left")
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
