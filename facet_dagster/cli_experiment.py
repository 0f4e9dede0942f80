"""Commands that run the same seeds under several settings and compare what came of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated, cast, get_args

import typer
from rich.table import Table

from facet_dagster import connect
from facet_dagster.cli_output import Json, err, out, say
from facet_dagster.domain.causes import Cause
from facet_dagster.domain.task import Order, Pipeline
from facet_dagster.errors import ConfigError
from facet_dagster.pipeline.draw import Neighbourhood, carry, draw, index_skills
from facet_dagster.pipeline.experiment import Arm, Last, Ports, chosen_seeds, orders, pipelines, run_arms
from facet_dagster.reports.draw import DrawReport, draw_report
from facet_dagster.reports.experiment import ArmReport, Comparison, Experiment, experiment
from facet_dagster.reports.statistics import Rate
from facet_dagster.settings import Settings, load_settings

experiment_app = typer.Typer(help="The same seeds under several settings, compared.", no_args_is_help=True)
Batch = Annotated[str, typer.Option(help="Only seeds of this batch.")]
Until = Annotated[str, typer.Option(help="Last stage: task (validated), or certificate.")]
Models = Annotated[
    str, typer.Option(help="Names of models, comma-separated: each writes everything for its arms itself.")
]


@experiment_app.command("orders")
def compare_orders(
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, the oldest first.")],
    orders_: Annotated[str, typer.Option("--orders", help="Comma-separated.")] = "forward,reverse,joint",
    models: Models = "",
    batch: Batch = "",
    until: Until = "certificate",
    json_: Json = False,  # noqa: FBT002 - an option's default
) -> None:
    """Write and validate drafts in several orders on the same environments (the paper's Table 7)."""
    settings = load_settings()
    names = _names(orders_, get_args(Order), "--orders")
    arms = orders(settings, cast("list[Order]", names), _models(models, settings))
    _run("orders", arms, seeds, batch, until, settings, as_json=json_)


@experiment_app.command("pipelines")
def compare_pipelines(
    pairs: Annotated[int, typer.Option(min=1, help="How many pairs of skills, the oldest first.")],
    pipelines_: Annotated[str, typer.Option("--pipelines", help="Comma-separated.")] = "direct,recording,facet",
    models: Models = "",
    batch: Batch = "",
    until: Until = "certificate",
    json_: Json = False,  # noqa: FBT002
) -> None:
    """Carry the same pairs of skills through several pipelines (the paper's Table 10)."""
    settings = load_settings()
    names = _names(pipelines_, get_args(Pipeline), "--pipelines")
    arms = pipelines(settings, cast("list[Pipeline]", names), _models(models, settings))
    _run("pipelines", arms, pairs, batch, until, settings, as_json=json_)


@experiment_app.command("draw")
def drawn_pairs(
    pairs: Annotated[int, typer.Option(min=1, help="How many accepted pairs.")],
    number: Annotated[int, typer.Option(help="Decides the order of the skills: the same number, the same pairs.")],
    until: Until = "certificate",
    json_: Json = False,  # noqa: FBT002
) -> None:
    """Draw pairs from all kept skills and carry each through the funnel once (the paper's Table 5)."""
    settings, last = load_settings(), _last(until)
    ports = _ports(settings)
    with connect.open_vectors(settings) as vectors:
        near = Neighbourhood(connect.open_embedder(settings), vectors)
        index_skills(settings, ports, near)
        drawn = draw(number, pairs, settings, ports, near)
    err.print(f"  {drawn.anchors} skills looked at, {len(drawn.seeds)} pairs accepted")
    failed = dict[str, str]()
    for done in carry(drawn.seeds, settings, ports, last):
        failed |= done.failed
        if done.computed:
            err.print(f"  {done.stage}: {done.computed} computed")
    found = draw_report(drawn, settings, ports.ledger, ports.store, failed)
    say(found, lambda: out.print(_steps(found)), as_json=json_)
    _complain(list(failed.values()))


def _steps(found: DrawReport) -> Table:
    table = Table(title=f"Draw {found.drawn.number}: {len(found.drawn.seeds)} pairs", title_justify="left")
    for column in ("", "Share (95 %)", "Paper", "Lost on the way"):
        table.add_column(column, overflow="fold")
    for step in found.steps:
        lost = ", ".join(f"{reason} {count}" for reason, count in step.losses.items())
        paper = "" if step.paper is None else f"{100 * step.paper:.1f} %"
        table.add_row(step.label, _rate(step.rate), paper, lost)
    return table


def _names(text: str, known: Sequence[str], option: str) -> list[str]:
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    wrong = [name for name in names if name not in known]
    if wrong or not names:
        raise ConfigError(f"{option} takes some of {', '.join(known)}, not {', '.join(wrong) or 'nothing'}")
    return names


def _models(text: str, settings: Settings) -> list[str]:
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if names and not settings.live:
        raise ConfigError("--models needs a live model: set FACET_MODEL or FACET_MODELS")
    return names


def _run(
    kind: str, arms: Sequence[Arm], count: int, batch: str, until: str, settings: Settings, *, as_json: bool
) -> None:
    last, ports = _last(until), _ports(settings)
    keys = chosen_seeds(ports.ledger, count, batch)
    computed, failed = 0, defaultdict[str, dict[str, str]](dict)
    for done in run_arms(arms, keys, ports, last):
        computed += done.computed
        failed[done.arm] |= done.failed
        err.print(f"  {done.arm} {done.stage}: {done.computed} computed, {done.settled - done.computed} read back")
    found = experiment(
        kind, arms, keys, ledger=ports.ledger, store=ports.store, until=last, computed=computed, failed=failed
    )
    say(found, lambda: _print(found), as_json=as_json)
    _complain([text for of_arm in failed.values() for text in of_arm.values()])


def _last(until: str) -> Last:
    if until not in get_args(Last):
        raise ConfigError(f"--until takes one of {', '.join(get_args(Last))}, not {until or 'nothing'}")
    return cast("Last", until)


def _ports(settings: Settings) -> Ports:
    ledger, store = connect.open_ledger(settings), connect.open_store(settings)
    sandbox = connect.open_sandbox(settings)
    return Ports(ledger, store, sandbox, lambda of_arm, run_id: connect.open_llm(of_arm, ledger, store, run_id))


def _complain(troubles: Sequence[str]) -> None:
    """Raises ConfigError where a seed has no result."""
    if troubles:
        raise ConfigError(f"{len(troubles)} results are missing, run again to go on. The first: {troubles[0]}")


def _print(found: Experiment) -> None:
    out.print(_yields(found))
    out.print(_causes(found))
    if found.comparisons:
        out.print(_pairs(found.comparisons))


def _yields(found: Experiment) -> Table:
    table = Table(title=f"{len(found.seeds)} seeds, {found.kind}", title_justify="left")
    for column in ("", "Drafts", "Initially valid", "Validated", "Certified", "Rounds", "Tokens a task", "USD a task"):
        table.add_column(column, overflow="fold")
    for arm in found.arms:
        spent = arm.spending
        table.add_row(
            arm.name,
            f"{arm.drafts.count}/{arm.seeds}",
            _rate(arm.initially_valid),
            _rate(arm.validated),
            _rate(arm.certified) if arm.certified else "",
            _number(arm.mean_rounds, ".2f"),
            _number(spent.tokens_per_task, ",.0f"),
            _number(spent.cost_per_task, ".4f"),
        )
        if arm.paper:
            table.add_row(*_paper(arm), style="dim")
    return table


def _paper(arm: ArmReport) -> list[str]:
    assert arm.paper is not None
    told = arm.paper
    first = f"{told.initially_valid}/{told.drafts}" if told.initially_valid is not None else ""
    share = f"{100 * told.validated / told.seeds:.1f} %"
    return [f"  paper: {told.name}", f"{told.drafts}/{told.seeds}", first, f"{told.validated}/{told.seeds} = {share}"]


def _causes(found: Experiment) -> Table:
    table = Table(title="Why drafts were not valid at first; at the end", title_justify="left")
    table.add_column("Cause")
    for arm in found.arms:
        table.add_column(arm.name, overflow="fold")
    others = sorted({c for arm in found.arms for c in (*arm.initial_causes, *arm.final_causes)} - set(Cause))
    for cause in (*map(str, Cause), *others):
        table.add_row(cause, *(_cause(arm, cause) for arm in found.arms))
    for component in sorted({name for arm in found.arms for name in arm.final_components}):
        table.add_row(f"at the end: {component}", *(str(a.final_components.get(component, 0)) for a in found.arms))
    return table


def _cause(arm: ArmReport, cause: str) -> str:
    at_first, at_end = arm.initial_causes.get(cause, 0), arm.final_causes.get(cause, 0)
    of = sum(arm.initial_causes.values())
    share = f" ({100 * at_first / of:.1f} %)" if of else ""
    told = f", paper {arm.paper.causes[cause]} %" if arm.paper and cause in arm.paper.causes else ""
    return f"{at_first}{share}{told}; {at_end}"


def _pairs(comparisons: Sequence[Comparison]) -> Table:
    table = Table(title="Paired by seed", title_justify="left")
    for column in ("Measure", "First", "Second", "Only first", "Only second", "Difference", "p (McNemar, exact)"):
        table.add_column(column)
    for one in comparisons:
        pair = one.paired
        interval = (
            "" if pair.difference is None else f"{_points(pair.difference)} ({_points(pair.low)}, {_points(pair.high)})"
        )
        counts = (str(pair.only_first), str(pair.only_second))
        table.add_row(one.measure, one.first, one.second, *counts, interval, _number(pair.p, ".3g"))
    return table


def _rate(found: Rate) -> str:
    text = f"{found.count}/{found.of}"
    if found.rate is None or found.low is None or found.high is None:
        return text
    return f"{text} = {100 * found.rate:.1f} % ({100 * found.low:.1f}-{100 * found.high:.1f})"


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _points(value: float | None) -> str:
    """Percentage points."""
    return "" if value is None else f"{100 * value:+.1f}"
