"""Commands by which people decide about tasks: quarantine, retry, audit; and the list of what was rejected."""

from __future__ import annotations

from typing import Annotated

import typer

from facet_dagster import connect
from facet_dagster.cli_output import Json, out, say
from facet_dagster.errors import ConfigError
from facet_dagster.pipeline import quarantine as quarantines
from facet_dagster.pipeline.graph import SeedStages, seed_stages
from facet_dagster.pipeline.retry import Retried
from facet_dagster.pipeline.retry import retry as ask_again
from facet_dagster.ports import Ledger
from facet_dagster.reports import audit as audits
from facet_dagster.reports.rejected import Death
from facet_dagster.reports.rejected import rejected as all_deaths
from facet_dagster.reports.statistics import Rate
from facet_dagster.reports.tasks import tasks as task_lines
from facet_dagster.reports.why import resolve
from facet_dagster.settings import load_settings

OVER = 1
Note = Annotated[str, typer.Option(help="Why, for those who read it later.")]
By = Annotated[str, typer.Option(help="Name of the person who decides.")]
audit_app = typer.Typer(help="People look at a sample of the certified tasks.", no_args_is_help=True)


def _seed(ident: str, ledger: Ledger) -> str:
    kind, key = resolve(ident, ledger)
    if kind != "seed":
        raise ConfigError(f"{key} is a {kind}, and only seeds have tasks: `facet seeds` lists them")
    return key


def quarantine(
    task: Annotated[str, typer.Argument(help="A seed's key, or a beginning of it; nothing: list them.")] = "",
    note: Note = "",
    lift: Annotated[bool, typer.Option("--lift", help="Let it back in.")] = False,  # noqa: FBT002
    by: By = "",
    json_: Json = False,  # noqa: FBT002
) -> None:
    """Take a task out of exports, lists, rollouts and revalidation until it is let back in."""
    settings = load_settings()
    ledger = connect.open_ledger(settings)
    if task:
        if not note.strip():
            raise ConfigError("Say why, with --note: it stands in the ledger for those who come later")
        lines = task_lines(settings, ledger, connect.open_store(settings), all_=True)
        key = _seed(task, ledger)
        package = next((line.package for line in lines if line.key == key), "")
        if quarantines.quarantine(ledger, key, note, lift=lift, name=by, package=package) is None:
            raise ConfigError(f"Task {key} is {'not' if lift else 'already'} in quarantine")
    found = quarantines.quarantined(ledger)
    texts = [f"{key}  by {quarantines.decided_by(fact)}: {fact.note}" for key, fact in sorted(found.items())]
    text = "\n".join(texts) or "No task is in quarantine."
    plain = [fact.model_dump(mode="json") for _, fact in sorted(found.items())]
    say(plain, lambda: out.print(text, markup=False, soft_wrap=True), as_json=json_)


def retry(
    seeds: Annotated[list[str], typer.Argument(help="Keys of seeds, or beginnings of them.")],
    stage: Annotated[str, typer.Option(help="Which stage; the one that rejected the seed when not given.")] = "",
    note: Note = "",
    by: By = "",
    json_: Json = False,  # noqa: FBT002
) -> None:
    """Have the rejected stage of seeds computed again, with new replies of the models; old results stay.

    A changed prompt, model setting or order is a version of its own and needs no retry.
    """
    settings = load_settings()
    ledger = connect.open_ledger(settings)
    if stage and stage not in SeedStages._fields:
        raise ConfigError(f"There is no stage {stage!r}: say one of {', '.join(SeedStages._fields)}")
    keys = list(dict.fromkeys(_seed(ident, ledger) for ident in seeds))
    found = ask_again(keys, seed_stages(settings), ledger, stage=stage, note=note, name=by)
    say([one.model_dump() for one in found], lambda: _print_retries(found, live=settings.live), as_json=json_)


def _print_retries(found: list[Retried], *, live: bool) -> None:
    for one in found:
        state = "waits already" if one.waiting else f"will be computed again (retry {one.round})"
        text = f"{one.key}  {one.stage} {state}{f', after {one.reason}' if one.reason else ''}"
        out.print(text, markup=False, soft_wrap=True)
    out.print("Run them: `facet run` with their batch, or materialize their partitions in the web UI.")
    if not live:
        out.print("This installation replays a tape, so models will answer as before: set FACET_MODEL to ask anew.")


def rejected(
    reason: Annotated[str, typer.Option(help="Only reasons that begin so, such as task or task.flaky.")] = "",
    family: Annotated[str, typer.Option(help="Only seeds of this family.")] = "",
    batch: Annotated[str, typer.Option(help="Only the seeds of this batch.")] = "",
    json_: Json = False,  # noqa: FBT002
) -> None:
    """Every rejected seed: where and why it ended, whose fault it was, after how many rounds, at what cost."""
    settings = load_settings()
    found = all_deaths(settings, connect.open_ledger(settings), reason=reason, family=family, batch=batch)
    say([one.model_dump(mode="json") for one in found], lambda: _print_deaths(found), as_json=json_)


def _print_deaths(found: list[Death]) -> None:
    for one in found:
        cost = "cost unknown" if one.cost is None else f"{one.cost:.4f} USD"
        text = f"{one.key}  {one.stage:<17} {one.reason} ({one.component}), {one.rounds} rounds, {cost}"
        out.print(text, markup=False, soft_wrap=True)
        out.print(f"    {one.evidence}", markup=False, soft_wrap=True, style="dim")
    out.print(f"{len(found)} rejected")


@audit_app.command("sample")
def sample(
    count: Annotated[int, typer.Option("-n", min=1, help="How many tasks.")] = 50,
    number: Annotated[int, typer.Option(help="What the draw begins with; another number, another sample.")] = 0,
    batch: Annotated[str, typer.Option(help="Only the seeds of this batch.")] = "",
    json_: Json = False,  # noqa: FBT002
) -> None:
    """Draw certified tasks for people to look at, by family and by whether they were repaired, and record which."""
    settings = load_settings()
    ledger = connect.open_ledger(settings)
    lines = task_lines(settings, ledger, connect.open_store(settings), batch)
    found = audits.draw(lines, count, number, ledger)
    texts = [f"{one.key}  {one.family}, {'repaired' if one.repaired else 'first pass'}" for one in found]
    text = "\n".join([f"Sample {found[0].sample}: {len(found)} of {len(lines)} tasks", *texts])
    say([one.model_dump(mode="json") for one in found], lambda: out.print(text, markup=False), as_json=json_)


@audit_app.command("record")
def record(
    task: Annotated[str, typer.Argument(help="A seed's key, or a beginning of it.")],
    ok: Annotated[bool | None, typer.Option("--ok/--defect", help="What was found.")] = None,
    note: Note = "",
    by: By = "",
) -> None:
    """Record what a person found about the version of a task that is in force; the last word counts."""
    settings = load_settings()
    ledger = connect.open_ledger(settings)
    if ok is None or (not ok and not note.strip()):
        raise ConfigError("Say --ok, or --defect with what is wrong as --note")
    key = _seed(task, ledger)
    lines = task_lines(settings, ledger, connect.open_store(settings), all_=True)
    line = next((line for line in lines if line.key == key), None)
    if line is None:
        raise ConfigError(f"Seed {key} has no certified task: `facet tasks` lists them")
    audits.record(line, ledger, ok=ok, note=note, name=by)
    text = f"{key}: {'ok' if ok else 'defect'}. {'' if ok else f'`facet quarantine {key} --note ...` takes it out.'}"
    out.print(text.rstrip(), markup=False, soft_wrap=True)


@audit_app.command("report")
def report(
    sample: Annotated[str, typer.Option(help="Name of a sample, or its beginning; the last one when not given.")] = "",
    max_rate: Annotated[float | None, typer.Option(min=0, max=1, help="Exit with 1 when it may be higher.")] = None,
    json_: Json = False,  # noqa: FBT002
) -> None:
    """How many tasks of a sample have a defect, in all and by stratum, with intervals.

    With --max-rate the exit code is 1 unless every drawn task has a verdict and the upper bound is no higher.
    """
    found = audits.report(connect.open_ledger(load_settings()), sample)
    say(found, lambda: _print_audit(found), as_json=json_)
    if max_rate is not None and (found.open or found.high is None or max(found.high, found.plain.high or 0) > max_rate):
        raise typer.Exit(OVER)


def _print_audit(found: audits.AuditReport) -> None:
    out.print(f"Sample {found.sample}: {found.plain.of} of {found.drawn} tasks have a verdict", markup=False)
    for one in found.strata:
        what = "repaired" if one.repaired else "first pass"
        out.print(f"  {one.family:<24} {what:<11} {_rate(one.defects)} (of {one.tasks} tasks)", markup=False)
    out.print(f"  defects in all: {_rate(found.plain)}", markup=False)
    if found.weighted is not None and found.low is not None and found.high is not None:
        text = f"{100 * found.weighted:.1f} % ({100 * found.low:.1f} to {100 * found.high:.1f})"
        out.print(f"  weighted by the tasks of each stratum: {text}")
    for key in found.defects:
        out.print(f"  defect: {key}")


def _rate(found: Rate) -> str:
    if found.rate is None or found.low is None or found.high is None:
        return "no verdict"
    return f"{found.count} of {found.of} = {100 * found.rate:.1f} % ({100 * found.low:.1f} to {100 * found.high:.1f})"
