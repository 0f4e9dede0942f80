"""The command that looks at every part of this installation."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from facet_dagster.cli_output import Json, out, say
from facet_dagster.doctor.examine import examine
from facet_dagster.doctor.finding import Finding

Live = Annotated[bool, typer.Option("--live", help="Also ask each model one short question, which is paid.")]


def doctor(
    live: Live = False,  # noqa: FBT002 - an option's default
    json_: Json = False,  # noqa: FBT002
) -> None:
    """Look at every part of this installation and say how to mend what is broken. Starts and changes nothing.

    Exit code 1 when something that is needed is broken.
    """
    found = examine(os.environ, live=live)  # noqa: TID251 - a composition root
    data = {"ok": not _count(found, "broken"), "findings": [finding.model_dump() for finding in found]}
    say(data, lambda: _print(found), as_json=json_)
    raise typer.Exit(0 if data["ok"] else 1)


def _count(found: list[Finding], state: str) -> int:
    return sum(finding.state == state for finding in found)


def _print(found: list[Finding]) -> None:
    width = max(len(finding.name) for finding in found)
    for finding in found:
        out.print(f"{finding.state:<6} {finding.name:<{width}}  {finding.what}", markup=False, soft_wrap=True)
        if finding.mend:
            out.print(f"{'':<6} {'':<{width}}  -> {finding.mend}", markup=False, soft_wrap=True)
    out.print(f"{_count(found, 'ok')} ok, {_count(found, 'warn')} to look at, {_count(found, 'broken')} broken")
