"""Commands about model calls: what they cost, and tapes."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from facet_dagster import connect, webui
from facet_dagster.adapters.tape import Tape
from facet_dagster.adapters.tape_diff import differences
from facet_dagster.adapters.tape_server import serve
from facet_dagster.child import run_child
from facet_dagster.cli_output import Json, out, say
from facet_dagster.deployments import Price
from facet_dagster.domain.facts import ReplyFact, StageFact
from facet_dagster.errors import ConfigError
from facet_dagster.reports.cost import Cost, Spent
from facet_dagster.reports.cost import cost as cost_report
from facet_dagster.reports.plan import ROLLOUT_TOKENS, Interval, Plan, canary, project
from facet_dagster.reports.tasks import tasks as task_lines
from facet_dagster.settings import load_settings

CANARY = "canary"
USD = Annotated[float | None, typer.Option(min=0, help="USD per million tokens: what all tokens would cost.")]


tape_app = typer.Typer(help="Recorded replies of models: record, replay, compare, serve.", no_args_is_help=True)
Seeds = Annotated[int, typer.Option(min=0, help="Seeds the batch shall hold; 0: FACET_SEEDS.")]


@tape_app.command()
def record(tape: Path, batch: str = "recorded", seeds: Seeds = 0) -> None:
    """Run the funnel live over what was ingested, and record every reply on TAPE, also those that are cached.

    Stages that are settled ask nothing: a new tape needs a new installation.
    """
    settings = load_settings()
    if not settings.live:
        raise ConfigError("Recording needs a model: set FACET_MODEL or FACET_MODELS")
    if not tape.exists() and connect.open_ledger(settings).find(StageFact, stage="scenario_hypotheses"):
        raise ConfigError(
            "Here stages are settled already, which ask nothing again, so the tape would lack them: record in a new"
            " installation (FACET_HOME)"
        )
    raise typer.Exit(_run(batch, seeds, FACET_RECORD=str(tape.absolute())))


@tape_app.command()
def replay(
    tape: Path,
    batch: str = "recorded",
    seeds: Seeds = 0,
    lenient: Annotated[bool, typer.Option(help="Use stale entries, with a warning.")] = False,  # noqa: FBT002
) -> None:
    """Run the funnel over what was ingested with the replies of TAPE and no model."""
    Tape.load(tape)
    mode = "lenient" if lenient else "strict"
    changed = {
        "FACET_TAPE": str(tape.absolute()),
        "FACET_TAPE_MODE": mode,
        "FACET_MODEL": "",
        "FACET_MODELS": "",
    }
    raise typer.Exit(_run(batch, seeds, quiet=False, **changed))


def _run(batch: str, seeds: int, *, quiet: bool = False, **settings: str) -> int:
    """``facet run`` as a child with other settings; gives its exit code."""
    environment = {**os.environ, **settings}  # noqa: TID251 - a composition root
    command = [sys.executable, "-m", "facet_dagster.cli", "run", "--batch", batch, "--seeds", str(seeds)]
    stream = sys.stderr if quiet else None
    return run_child(command, environment, stream)


@tape_app.command()
def diff(old: Path, new: Path, json_: Json = False) -> None:  # noqa: FBT002
    """What NEW holds that OLD does not, lacks, or says differently. Exit code 1 when they differ."""
    found = differences(Tape.load(old), Tape.load(new))
    lines = [f"{d.change:<8} {d.what}" for d in found] or ["no difference"]
    say(
        [d.model_dump() for d in found],
        lambda: out.print("\n".join(lines), markup=False, soft_wrap=True),
        as_json=json_,
    )
    raise typer.Exit(1 if found else 0)


@tape_app.command("serve")
def serve_tape(
    tape: Path,
    port: Annotated[int, typer.Option(min=1, max=65_535)] = 8766,
    lenient: Annotated[bool, typer.Option(help="Another screen than the recorded one is a warning.")] = False,  # noqa: FBT002
    record: Annotated[bool, typer.Option(help="Ask the live model for what is missing, and add it.")] = False,  # noqa: FBT002
) -> None:
    """Answer other programs from TAPE at http://127.0.0.1:PORT/v1 until interrupted."""
    settings = load_settings()
    if record and not settings.live:
        raise ConfigError("Recording needs a model: set FACET_MODEL or FACET_MODELS")
    webui.check_port("127.0.0.1", port)
    server = connect.open_tape_server(settings, tape, strict=not lenient, record=record)
    out.print(f"Tape {tape.name} at http://127.0.0.1:{port}/v1; the model's name, tape/LABEL, says which conversation.")
    serve(server.app(), port)


cache_app = typer.Typer(help="Paid replies, kept so that no call is paid twice.", no_args_is_help=True)
Call = Annotated[str, typer.Option(help="Only replies to this call.")]
Model = Annotated[str, typer.Option(help="Only replies of this model.")]


@cache_app.command()
def export(file: Path, call: Call = "", model: Model = "", json_: Json = False) -> None:  # noqa: FBT002
    """Write the cached replies to FILE, one JSON object a line: cache_key, call, model, tokens, cost, reply."""
    settings = load_settings()
    store = connect.open_store(settings)
    facts = connect.open_ledger(settings).find(ReplyFact, **_chosen(call, model))
    aside = file.with_suffix(f".{os.getpid()}.new")
    with aside.open("w", encoding="utf-8") as lines:
        for fact in facts:
            reply = json.loads(store.get(fact.reply))
            lines.write(json.dumps({**fact.model_dump(mode="json"), "reply": reply}, ensure_ascii=False) + "\n")
    aside.replace(file)
    say({"replies": len(facts)}, lambda: out.print(f"{len(facts)} replies in {file}", markup=False), as_json=json_)


@cache_app.command()
def evict(
    call: Call = "",
    model: Model = "",
    older_than: Annotated[float, typer.Option(min=0, help="Only replies older than so many days.")] = 0.0,
    json_: Json = False,  # noqa: FBT002
) -> None:
    """Forget cached replies: the next run that needs them pays again. What was made of them stays."""
    before = datetime.now(UTC) - timedelta(days=older_than)
    gone = connect.open_ledger(load_settings()).evict(ReplyFact, before=before, **_chosen(call, model))
    say({"evicted": gone}, lambda: out.print(f"{gone} replies evicted"), as_json=json_)


def _chosen(call: str, model: str) -> dict[str, str]:
    return {name: value for name, value in (("call", call), ("model", model)) if value}


def plan(
    tasks: Annotated[int, typer.Option(min=1, help="Certified tasks that you want.")],
    budget: Annotated[float, typer.Option(min=0, help="USD that you have.")],
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of the canary.")] = 5,
    attempts: Annotated[int, typer.Option(min=0, help="Rollouts a task.")] = 1,
    rollout_cost: Annotated[
        float | None, typer.Option(min=0, help="USD a rollout; else from the model's price.")
    ] = None,
    floor: Annotated[float, typer.Option(min=0, max=1, help="Refuse when less than this share is affordable.")] = 0.0,
    json_: Json = False,  # noqa: FBT002
) -> None:
    """Carry a small batch live to its end, and project from it what TASKS certified tasks and their rollouts cost."""
    settings = load_settings()
    if not settings.live:
        raise ConfigError("A plan needs a live model: set FACET_MODEL or FACET_MODELS")
    code = _run(CANARY, seeds, quiet=json_)
    ledger, store = connect.open_ledger(settings), connect.open_store(settings)
    certified = [line.key for line in task_lines(settings, ledger, store, CANARY)]
    if code:
        raise ConfigError("The canary did not end well; what it printed above says why")
    each = rollout_cost if rollout_cost is not None else connect.rollout_price(settings, ROLLOUT_TOKENS)
    if each is None and attempts:
        raise ConfigError("The price of a rollout is not known: give --rollout-cost, or a price in FACET_MODELS")
    seen = canary(ledger, CANARY, certified)
    planned = project(seen, tasks=tasks, budget=budget, attempts=attempts, rollout=each or 0.0)
    say(planned, lambda: _print_plan(planned), as_json=json_)
    if planned.affordable.middle < floor * tasks:
        raise ConfigError(
            f"{budget:g} USD buy about {planned.affordable.middle:.0f} of {tasks} tasks: below the floor, {floor:.0%}."
            " Raise the budget, or lower --tasks, --attempts or --floor."
        )


def _print_plan(planned: Plan) -> None:
    seen = planned.canary

    def text(i: Interval, form: str = ",.2f") -> str:
        return f"{format(i.middle, form)} ({format(i.low, form)} to {format(i.high, form)})"

    for line in (
        f"Canary: {seen.certified} of {seen.seeds} seeds became certified tasks, {sum(seen.costs):.4f} USD.",
        f"Seeds for {planned.tasks} tasks: {text(planned.seeds_needed, ',.0f')}",
        f"Synthesis: {text(planned.synthesis_cost)} USD",
        f"Rollouts: {planned.rollout_cost:,.2f} USD",
        f"Together: {text(planned.cost)} USD",
        f"{planned.budget:g} USD buy {text(planned.affordable, ',.0f')} tasks.",
    ):
        out.print(line, soft_wrap=True)
    if planned.pairs_missing:
        out.print(f"About {planned.pairs_missing} more accepted pairs are needed: ingest more skills.", soft_wrap=True)


def cost(input_price: USD = None, output_price: USD = None, json_: Json = False) -> None:  # noqa: FBT002
    """Tokens and money of model calls, by call, stage, model, run, seed, and for a certified task."""
    settings = load_settings()
    ledger, store = connect.open_ledger(settings), connect.open_store(settings)
    given = (input_price, output_price) != (None, None)
    price = Price(input=input_price or 0, output=output_price or 0) if given else None
    report = cost_report(ledger, len(task_lines(settings, ledger, store)), price)
    say(report, lambda: _print_cost(report), as_json=json_)


def _print_cost(report: Cost) -> None:
    for title, lines in (("By call", report.calls), ("By stage", report.stages), ("By model", report.models)):
        out.print(_table(title, [*lines, report.total]))
    for line in report.seeds:
        out.print(f"  seed {line.name}: {line.calls} calls, {line.completion_tokens} tokens out, {line.cost:.4f} USD")
    whole = f"{report.per_task:.4f} USD for each, all losses included" if report.per_task is not None else "no price"
    out.print(f"{report.certified} certified tasks: {whole}")
    if report.total.unpriced:
        out.print(
            f"[yellow]{report.total.unpriced} paid calls have no known price: give their model one in FACET_MODELS,"
            " or see what they would cost with --input-price and --output-price.[/yellow]",
            soft_wrap=True,
        )


def _table(title: str, lines: list[Spent]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for column in ("Calls", "Paid", "Malformed", "Retries", "Tokens in", "Tokens out", "USD"):
        table.add_column(column, justify="right")
    for s in lines:
        numbers = (s.calls, s.paid, s.malformed, s.retries, s.prompt_tokens, s.completion_tokens)
        table.add_row(escape(s.name), *(f"{number:,}" for number in numbers), f"{s.cost:.4f}")
    return table
