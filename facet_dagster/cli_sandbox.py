"""Commands about containers: does the engine keep its promises, what was left behind, a shell in a task's state."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated, Any

import typer

from facet_dagster import connect
from facet_dagster import shell as workplace
from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.adapters.sandbox_selfcheck import Promise
from facet_dagster.adapters.sandbox_selfcheck import selfcheck as promises
from facet_dagster.cli_output import Json, err, out, say
from facet_dagster.domain.trial import Reaped
from facet_dagster.errors import ConfigError
from facet_dagster.reports.states import StateName
from facet_dagster.reports.states import state as find_state
from facet_dagster.settings import Settings, load_settings
from facet_dagster.stages.task.package import AGENT, TaskLimits

sandbox_app = typer.Typer(help="The container engine: does it keep what the funnel relies on?", no_args_is_help=True)


@sandbox_app.command()
def selfcheck(json_: Json = False) -> None:  # noqa: FBT002 - an option's default
    """Check on this engine, with real containers, every property that the funnel relies on. Takes about a minute."""
    settings = load_settings()
    first, second = (connect.open_sandbox(settings, reap=False) for _ in range(2))
    _check_base(first, settings)
    before = first.counts(own=False)
    found = []
    for promise in promises(first, second, settings.base_image):
        found.append(promise)
        if not json_:
            _print_promise(promise)
    engine = first.describe()
    first.close()
    second.close()
    left = {name: number + second.counts(own=True)[name] for name, number in first.counts(own=True).items()}
    counts = {"before": before, "after": first.counts(own=False), "left": left}
    broken = [promise for promise in found if not promise.ok]
    data = {
        "ok": not broken and not any(left.values()),
        "checks": [promise.model_dump() | {"ok": promise.ok} for promise in found],
        "engine": asdict(engine),
        "counts": counts,
    }
    say(data, lambda: _print_engine(str(engine), counts, len(broken), len(found)), as_json=json_)
    raise typer.Exit(0 if data["ok"] else 1)


def _check_base(sandbox: DockerSandbox, settings: Settings) -> None:
    if sandbox.image(settings.base_image) is None:
        raise ConfigError(f"The base image {settings.base_image} is not on the engine: run `make setup`")


def _print_promise(promise: Promise) -> None:
    verdict = "ok    " if promise.ok else "FAILED"
    text = f"{verdict} {promise.name} ({promise.seconds:.1f} s){'' if promise.ok else f': {promise.broken}'}"
    out.print(text, markup=False, soft_wrap=True)


def _print_engine(engine: str, counts: dict[str, dict[str, int]], broken: int, total: int) -> None:
    out.print(f"{total - broken} of {total} hold. {engine}", markup=False, soft_wrap=True)
    left = ", ".join(f"{number} {name}" for name, number in counts["left"].items() if number)
    seen = ", ".join(f"{name} {n} before, {counts['after'][name]} after" for name, n in counts["before"].items())
    out.print(f"Left behind: {left or 'nothing'}. On the engine, whoever made it: {seen}", soft_wrap=True)


def reap(
    everything: Annotated[bool, typer.Option("--all", help="Also what live processes own.")] = False,  # noqa: FBT002
    json_: Json = False,  # noqa: FBT002
) -> None:
    """Remove containers, task images, networks and volumes that dead processes left behind, and list them."""
    found = connect.open_sandbox(load_settings(), reap=False).reap(images=True, everything=everything)
    data = {
        "containers": [{"id": ident, "subject": found.subjects.get(ident, "")} for ident in found.containers],
        **{name: list(getattr(found, name)) for name in ("images", "networks", "volumes")},
    }
    say(data, lambda: _print_reaped(found, data), as_json=json_)


def _print_reaped(found: Reaped, data: dict[str, list[Any]]) -> None:
    for ident in found.containers:
        out.print(f"container {ident[:12]}  {found.subjects.get(ident) or '(idle)'}", markup=False, soft_wrap=True)
    for kind in ("images", "networks", "volumes"):
        for name in data[kind]:
            out.print(f"{kind[:-1]} {name}", markup=False, soft_wrap=True)
    out.print("Removed " + ", ".join(f"{len(items)} {name}" for name, items in data.items()))


def shell(
    task: Annotated[str, typer.Argument(help="A seed's key, or any beginning of it that no other has.")],
    state: Annotated[StateName, typer.Option(help="e0: untouched; oracle: solved; failed: as it failed.")] = "e0",
    root: Annotated[bool, typer.Option(help="As root, with the few rights a trial's root has.")] = False,  # noqa: FBT002
    command: Annotated[str, typer.Option(help="Run this with bash and leave with its exit code.")] = "",
) -> None:
    """Open a task's container: no network, a trial's limits, in /app as its agent. It is gone when you leave.

    e0 is the initial state; oracle has run the reference solution; failed is what the last validation that
    failed left, with the checks that did not pass. At most 8 hours.
    """
    settings = load_settings()
    found = find_state(task, state, settings, connect.open_ledger(settings), connect.open_store(settings))
    if not command:
        workplace.check_terminal()
    limits, user = TaskLimits.of(settings.trial_seconds), "root" if root else AGENT
    sandbox = connect.open_sandbox(settings)
    with workplace.opened(found, sandbox, user=user, limits=limits, say=_note) as session:
        if not command:
            code = workplace.interact(session, user)
        else:
            done = workplace.command(session, command, user)
            sys.stdout.write(done.output)
            code = done.exit_code
    raise typer.Exit(code)


def _note(text: str) -> None:
    err.print(text, markup=False, soft_wrap=True)
