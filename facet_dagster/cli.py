"""The ``facet`` command. Reaches Dagster by subprocess, everything else by ports."""

from __future__ import annotations

import os
import sys
import time
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from facet_dagster import connect, proof, webui
from facet_dagster.child import end_orderly, run_child
from facet_dagster.cli_certificate import certify, revalidate
from facet_dagster.cli_decisions import audit_app, quarantine, rejected, retry
from facet_dagster.cli_doctor import doctor
from facet_dagster.cli_evaluate import evaluate
from facet_dagster.cli_experiment import experiment_app
from facet_dagster.cli_export import export_app
from facet_dagster.cli_gateway import cache_app, cost, plan, tape_app
from facet_dagster.cli_ingest import ingest
from facet_dagster.cli_night import failures, night
from facet_dagster.cli_output import Json, err, out, say, say_left_out
from facet_dagster.cli_report import difficulty, report
from facet_dagster.cli_review import review
from facet_dagster.cli_rollout import rollouts, show_rollouts
from facet_dagster.cli_sandbox import reap, sandbox_app, shell
from facet_dagster.cli_skills import skills_app
from facet_dagster.cli_task import coverage, scenario
from facet_dagster.cli_train import train_app
from facet_dagster.cli_upkeep import backup, restore, tidy
from facet_dagster.domain.facts import RawSkillFact
from facet_dagster.errors import ConfigError, FacetError
from facet_dagster.pipeline.graph import SeedStages, SkillStages
from facet_dagster.pipeline.rollouts import RolloutStages
from facet_dagster.pipeline.skills import ingest as ingest_path
from facet_dagster.reports.funnel import Funnel, accepted, losses_text, share_text
from facet_dagster.reports.funnel import funnel as funnel_report
from facet_dagster.reports.seeds import seeds as seed_lines
from facet_dagster.reports.tasks import left_out
from facet_dagster.reports.tasks import tasks as task_lines
from facet_dagster.reports.why import Why
from facet_dagster.reports.why import why as why_report
from facet_dagster.settings import Settings, load_settings

DEMO = "demo"
STAGES = (*SkillStages._fields, *SeedStages._fields, *RolloutStages._fields)
DEMO_TASKS = 4  # as many as the recorded rollouts are of
app = typer.Typer(
    help="Public agent skills in, execution-validated terminal tasks out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(export_app, name="export")
app.command()(ingest)
app.command()(cost)
app.command()(plan)
app.command()(doctor)
app.command()(backup)
app.command()(restore)
app.command()(tidy)
app.command()(reap)
app.command()(shell)
app.command()(coverage)
app.command()(scenario)
app.add_typer(experiment_app, name="experiment")
app.command()(certify)
app.command()(revalidate)
app.command()(quarantine)
app.command()(retry)
app.command()(rejected)
app.add_typer(audit_app, name="audit")
app.command()(rollouts)
app.command()(evaluate)
app.command()(review)
app.command()(night)
app.command()(failures)
app.command()(difficulty)
app.command()(report)
app.add_typer(skills_app, name="skills")
app.add_typer(sandbox_app, name="sandbox")
app.add_typer(tape_app, name="tape")
app.add_typer(cache_app, name="cache")
app.add_typer(train_app, name="train")
Batch = Annotated[str, typer.Option(help="Only the seeds of this batch.")]


@app.command()
def run(
    seeds: Annotated[int, typer.Option(min=0, help="Seeds the batch shall hold; 0: FACET_SEEDS.")] = 0,
    batch: Annotated[str, typer.Option(help="Label of the batch; today's yymmdd when empty.")] = "",
    until: Annotated[
        str, typer.Option(help="Last stage to run, as in the web UI; trajectories: agents try what is certified.")
    ] = "certificate",
    tasks: Annotated[int, typer.Option(min=0, help="How many certified tasks agents try; 0: all.")] = 0,
    json_: Json = False,  # noqa: FBT002
) -> None:
    """Carry ingested skills through every stage, as runs of the Dagster instance."""
    settings = load_settings()
    batch = batch or time.strftime("%y%m%d")
    if until not in STAGES:
        raise ConfigError(f"There is no stage {until!r}: name one of {', '.join(STAGES)}")
    if until in RolloutStages._fields and not settings.teacher:
        raise ConfigError("Rollouts need a teacher: set FACET_TEACHER to any model of litellm's")
    code = launch(settings, batch, seeds, until, tasks=tasks, quiet=json_)
    show_funnel(settings, batch, as_json=json_)
    if until in RolloutStages._fields:
        if not json_:
            show_rollouts(settings, batch, as_json=False)
        raise typer.Exit(code)
    if (
        until not in SkillStages._fields
        and code == 0
        and accepted(settings, connect.open_ledger(settings), batch, until) == 0
    ):
        what = "task" if until == "certificate" else f"seed at stage {until}"
        raise ConfigError(
            f"Batch {batch} gave no accepted {what}: `facet funnel` counts the losses, `facet why SEED` explains one"
        )
    raise typer.Exit(code)


def launch(settings: Settings, batch: str, seeds: int, until: str, *, tasks: int = 0, quiet: bool) -> int:
    """Run the stages in a child process that may import Dagster; return its exit code."""
    if not connect.open_ledger(settings).find(RawSkillFact):
        raise ConfigError("No skill was ingested yet: run `facet ingest PATH` first")
    banner(settings, quiet=quiet)
    connect.open_sandbox(settings)  # what killed processes left goes while the run starts
    command = [sys.executable, "-m", "facet_dagster.launch", "--batch", batch, "--until", until]
    command += ["--parent", str(os.getpid())]
    command += ["--count", str(seeds)] if seeds else []
    command += ["--tasks", str(tasks)] if tasks else []
    stream = sys.stderr if quiet else None
    environment = connect.dagster_environment(settings, os.environ)  # noqa: TID251 - a composition root
    return run_child(command, {**environment, **_teacher(settings)}, stream)


def _teacher(settings: Settings) -> dict[str, str]:
    """The teacher of these settings, for a child that reads its own."""
    key = settings.teacher_key.get_secret_value() if settings.teacher_key else ""
    told = {"FACET_TEACHER": settings.teacher, "FACET_TEACHER_BASE": settings.teacher_base, "FACET_TEACHER_KEY": key}
    return {name: text for name, text in told.items() if text}


def banner(settings: Settings, *, quiet: bool) -> None:
    where = err if quiet else out
    if settings.live:
        for line in connect.describe_models(settings):
            where.print(f"Model: {line}", soft_wrap=True)
    else:
        where.print(f"[bold yellow]Replay[/bold yellow] of {connect.describe_tape(settings)}: no model is called.")


@app.command()
def demo(json_: Json = False) -> None:  # noqa: FBT002
    """Ingest the bundled skills, run every stage, let an agent try some tasks, print the funnel."""
    settings = load_settings()
    ledger, store = connect.open_ledger(settings), connect.open_store(settings)
    new = ingest_path(settings.skills, ledger=ledger, store=store)
    (err if json_ else out).print(f"{settings.skills.name}: {new} new skills")
    with connect.recorded_teacher(settings) as teacher:
        known = teacher if isinstance(teacher, Settings) else settings
        until = "certificate" if isinstance(teacher, str) else "trajectories"
        code = launch(known, DEMO, settings.seeds, until, tasks=DEMO_TASKS, quiet=json_)
    if code:
        raise typer.Exit(code)
    connect.open_sandbox(settings, reap=False).reap(images=True)
    report = show_funnel(settings, "", as_json=json_)
    lines = task_lines(settings, ledger, store, DEMO)
    if not lines or report.count("certified") == 0:
        raise ConfigError("The demo gave no accepted task: `facet funnel` counts the losses")
    if not json_:
        print_tasks(lines)
        if isinstance(teacher, Settings):
            show_rollouts(teacher, DEMO, as_json=False)
        else:
            out.print(f"No agent tried them. {teacher}", soft_wrap=True)
        out.print(f"\nOpen the web UI: [bold]make ui[/bold], then http://localhost:{settings.ui_port}")


def show_funnel(settings: Settings, batch: str, *, as_json: bool) -> Funnel:
    ledger, store = connect.open_ledger(settings), connect.open_store(settings)
    report = funnel_report(settings, ledger, store, batch)
    data = {"batch": batch, "counts": {row.name: row.count for row in report.rows}, **report.model_dump(mode="json")}
    say(data, lambda: print_funnel(report), as_json=as_json)
    return report


def print_funnel(report: Funnel) -> None:
    table = Table(title="Funnel", title_justify="left")
    table.add_column("Stage")
    table.add_column("Count", justify="right")
    table.add_column("Share")
    table.add_column("Losses", overflow="fold")
    for row in report.rows:
        table.add_row(row.label, str(row.count), share_text(report, row), losses_text(row))
    out.print(table)


@app.command()
def funnel(batch: Batch = "", json_: Json = False) -> None:  # noqa: FBT002
    """Counts of every stage, with the reason of each loss (the paper's Table 5)."""
    show_funnel(load_settings(), batch, as_json=json_)


@app.command()
def seeds(batch: Batch = "", json_: Json = False) -> None:  # noqa: FBT002
    """Every seed, how far it came, and why it went no further."""
    settings = load_settings()
    lines = seed_lines(settings, connect.open_ledger(settings), batch)
    texts = [f"{line.key}  {line.verdict:<11} {line.stage:<17} {line.reason}" for line in lines]
    say([line.model_dump(mode="json") for line in lines], lambda: out.print("\n".join(texts)), as_json=json_)


@app.command()
def why(ident: str, json_: Json = False) -> None:  # noqa: FBT002
    """The story of a seed, task, candidate or skill: sources, attempts, verdict, evidence."""
    settings = load_settings()
    story = why_report(ident, settings, connect.open_ledger(settings), connect.open_store(settings))
    say(story, lambda: print_why(story), as_json=json_)


def print_why(story: Why) -> None:
    head = f"{story.kind} {story.id}: {story.verdict}"
    out.print(f"[bold]{head}[/bold]", soft_wrap=True)
    if story.reason:
        cause = f" ({story.cause})" if story.cause else ""
        out.print(f"  {story.reason} at stage {story.stage}, component {story.component}{cause}")
        out.print(f"  {story.message}", markup=False, soft_wrap=True)
    for skill in story.skills:
        under = ", ".join(filter(None, [skill.licence, skill.licence_evidence and f"by {skill.licence_evidence}"]))
        out.print(f"  skill {skill.name or skill.id}: {skill.origin} [{under}]", markup=False)
    for line in story.stages:
        out.print(f"  {line['stage']:<18} {line['verdict']:<10} {line['numbers']}", markup=False)
    for attempt in story.attempts:
        if attempt["kind"].startswith("module."):  # `facet scenario` shows them
            continue
        mark = "ok" if attempt["ok"] else "failed"
        out.print(f"  {attempt['kind']} round {attempt['round']}: {mark}. {attempt['summary']}", markup=False)
    print_trials(story)
    print_decisions(story)
    for remark in story.remarks:
        out.print(f"  remark: {remark}", markup=False, soft_wrap=True)
    for name, fact in story.evidence.items():
        out.print(f"  {name}: {fact}", markup=False, soft_wrap=True)


def print_decisions(story: Why) -> None:
    """Then the results that are not in force, each in a line: their attempts are in the JSON."""
    for one in story.decisions:
        text = f"  {one['kind']} by {one['by']}, {one['at']}: {one['note']}"
        out.print(text, markup=False, soft_wrap=True, style="yellow" if story.quarantined else None)
    for other in story.others:
        done = f"{len(other.attempts)} attempts, {len(other.trials)} trials"
        text = f"  not in force: {other.stage} {other.verdict} {other.reason} under {other.under}: {done}"
        out.print(text, markup=False, soft_wrap=True, style="dim")


def print_trials(story: Why) -> None:
    """Those of validations one by one; of a certificate's probes those that did not come out as wanted."""
    probes = [trial for trial in story.trials if trial["stage"] == "certificate"]
    for trial in story.trials:
        if trial.get("ok"):
            continue
        failed = ", ".join(check["check"] for check in trial["failed"]) or "none"
        text = f"  trial {trial['kind']} round {trial['round']}: reward {trial['reward']}, checks not passed: {failed}"
        out.print(text, markup=False, soft_wrap=True)
    if probes:
        out.print(
            f"  certificate: {sum(p['ok'] for p in probes)} of {len(probes)} probes in the ledger came out as wanted"
        )


@app.command()
def tasks(batch: Batch = "", json_: Json = False) -> None:  # noqa: FBT002
    """The certified tasks."""
    settings = load_settings()
    ledger = connect.open_ledger(settings)
    lines = task_lines(settings, ledger, connect.open_store(settings), batch)
    say_left_out(left_out(settings, ledger, batch))
    say([line.model_dump(mode="json") for line in lines], lambda: print_tasks(lines), as_json=json_)


def print_tasks(lines: list[Any]) -> None:
    """Two lines a task: a key that can be copied whatever the terminal's width, and what was shown of it."""
    out.print("[bold]Certified tasks[/bold]")
    for line in lines:
        odd = f", {len(line.not_as_wanted)} to look at" if line.not_as_wanted else ""
        base = "; stand-in base" if line.standin else ""
        facts = f"{line.checks} checks, {line.repairs} repairs; {line.level}: {line.probes} probes{odd}{base}"
        out.print(f"{line.key}  {line.title}", markup=False, soft_wrap=True)
        out.print(f"    {'/'.join(line.families)}; {facts}", markup=False, soft_wrap=True, style="dim")


@app.command("verify-harbor")
def verify_harbor(batch: Batch = "", json_: Json = False) -> None:  # noqa: FBT002
    """Lint every certified task with Harbor, and run its oracle (1) and nop (0) agents."""
    settings = load_settings()
    ledger, store = connect.open_ledger(settings), connect.open_store(settings)
    lines = task_lines(settings, ledger, store, batch)
    say_left_out(left_out(settings, ledger, batch))
    packages = {line.key: store.get(line.package) for line in lines}
    verdicts = proof.verify(packages, settings.home, os.environ)  # noqa: TID251 - a composition root
    bad = [verdict for verdict in verdicts if not verdict.ok]
    say(
        [verdict._asdict() | {"ok": verdict.ok} for verdict in verdicts],
        lambda: out.print("\n".join(map(proof.line, verdicts)), markup=False),
        as_json=json_,
    )
    if bad or not verdicts:
        raise ConfigError(f"{len(bad)} of {len(verdicts)} packages do not hold under Harbor")


@app.command()
def ui() -> None:
    """Serve the Dagster web UI and its daemon until interrupted."""
    settings = load_settings()
    connect.open_sandbox(settings)  # as in a run
    raise typer.Exit(webui.serve(settings, connect.dagster_environment(settings, os.environ)))  # noqa: TID251


@app.command()
def stop() -> None:
    """Stop the embedded PostgreSQL."""
    connect.stop_postgres(load_settings())


def main() -> None:
    """Entry point: a FacetError is one sentence and exit code 1."""
    end_orderly()
    try:
        app()
    except FacetError as error:
        full = "" if isinstance(error, ConfigError) else connect.full_disk(load_settings())
        err.print(f"[red]facet:[/red] {escape(full or str(error))}", soft_wrap=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
