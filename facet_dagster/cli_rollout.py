"""Commands about agents' attempts on certified tasks."""

from __future__ import annotations

from typing import Annotated

import typer

from facet_dagster import connect
from facet_dagster.cli_output import Json, out, say, say_left_out
from facet_dagster.reports.rollouts import RolloutReport, rollout_report
from facet_dagster.reports.statistics import Rate
from facet_dagster.reports.tasks import left_out
from facet_dagster.settings import Settings, load_settings

Batch = Annotated[str, typer.Option(help="Only the seeds of this batch.")]


def rollouts(batch: Batch = "", json_: Json = False) -> None:  # noqa: FBT002 - an option's default
    """What agents made of the certified tasks, attempt by attempt (`facet run --until trajectories` makes them)."""
    show_rollouts(load_settings(), batch, as_json=json_)


def show_rollouts(settings: Settings, batch: str, *, as_json: bool) -> RolloutReport:
    ledger, store = connect.open_ledger(settings), connect.open_store(settings)
    found = rollout_report(settings, connect.open_counter(settings).name, ledger, store, batch)
    say_left_out(left_out(settings, ledger, batch))
    say(found, lambda: _print(found), as_json=as_json)
    return found


def _print(found: RolloutReport) -> None:
    terms = found.protocol
    out.print(f"[bold]{terms.agent} with {terms.model or 'no teacher'}[/bold], temperature {terms.temperature:g}")
    for line in found.lines:
        mark = {1: "solved", 0: "failed", None: "unjudged"}[line.reward]
        kept = "kept" if line.accepted else "; ".join(line.what)
        text = f"  {line.key} #{line.number} {mark:<8} {line.checks - len(line.missed)}/{line.checks} checks, "
        out.print(f"{text}{line.turns} turns, {line.tokens} tokens: {kept}", markup=False, soft_wrap=True)
    out.print(
        f"  attempts solved {_rate(found.solved)}, tasks {_rate(found.tasks_solved)}, checks {_rate(found.checks)}"
    )
    out.print(f"  near-misses {found.near_misses}, kept for training {found.accepted}, unjudged {found.unjudged}")


def _rate(found: Rate) -> str:
    if found.rate is None or found.low is None or found.high is None:
        return f"{found.count}/{found.of}"
    return f"{found.count}/{found.of} = {100 * found.rate:.1f} % ({100 * found.low:.1f}-{100 * found.high:.1f})"
