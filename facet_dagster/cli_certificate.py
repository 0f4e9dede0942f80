"""Commands that run certificates again: of one package, of every accepted task."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from facet_dagster import connect
from facet_dagster.cli_output import Json, err, out, say, say_left_out
from facet_dagster.domain.archive import ArchiveError
from facet_dagster.domain.task import Level
from facet_dagster.errors import ConfigError, PortError
from facet_dagster.reports.revalidate import Revalidated, package_of
from facet_dagster.reports.revalidate import revalidate as run_all
from facet_dagster.reports.tasks import left_out
from facet_dagster.reports.tasks import tasks as task_lines
from facet_dagster.reports.why import resolve
from facet_dagster.settings import Settings, load_settings
from facet_dagster.stages.task.certificate.again import LEVELS, Again, run_again
from facet_dagster.stages.task.package import Package

DIFFERS, BAD_INPUT, TROUBLE = 1, 2, 3
MOST_BYTES = 256 * 1024 * 1024
SHA256 = 64
LevelName = Annotated[str, typer.Option(help="How far to go: basic, standard or strict; never beyond the certificate.")]


def certify(
    task: Annotated[
        str, typer.Argument(help="A package's folder or archive, its sha256 in the store, or a seed's key.")
    ],
    level: LevelName = "strict",
    json_: Json = False,  # noqa: FBT002 - an option's default
) -> None:
    """Run a certificate again from its package alone, without a model, and compare probe by probe.

    A folder or an archive needs no ledger. Exit code 0: it agrees; 1: differences; 2: no such package; 3: the engine
    failed, and nothing is known.
    """
    settings = load_settings()
    try:
        package = _package(task, settings)
        again = run_again(package, sandbox=connect.open_sandbox(settings, reap=False), level=_level(level))
    except (ConfigError, ArchiveError, LookupError, UnicodeError, RecursionError) as error:
        err.print(f"facet: {error}", markup=False, soft_wrap=True)
        raise typer.Exit(BAD_INPUT) from error
    except PortError as error:
        err.print(f"facet: The certificate could not be run: {error}", markup=False, soft_wrap=True)
        raise typer.Exit(TROUBLE) from error
    say(again.model_dump(mode="json") | {"agrees": again.agrees}, lambda: _print(again), as_json=json_)
    raise typer.Exit(0 if again.agrees else DIFFERS)


def _level(name: str) -> Level:
    for level in LEVELS:
        if level == name:
            return level
    raise ConfigError(f"There is no level {name!r}: say {', '.join(LEVELS)}")


def _package(task: str, settings: Settings) -> Package:
    """Raises ConfigError when nothing of that name is a package."""
    path = Path(task)
    if path.is_dir():
        return _of_folder(path)
    if path.is_file():
        return _of_archive(path.read_bytes(), task)
    if len(task) == SHA256 and connect.open_store(settings).has(task):
        return _of_archive(connect.open_store(settings).get(task), task)
    return _of_seed(task, settings)


def _of_archive(tar: bytes, name: str) -> Package:
    try:
        return package_of(tar)
    except ArchiveError as error:
        raise ConfigError(f"{name} is no archive of a package: {error}") from error


def _of_folder(folder: Path) -> Package:
    """Regular files below ``folder``; links are not followed."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
    if not (folder / "task.toml").is_file():
        raise ConfigError(f"{folder} holds no task.toml: give the folder of one Harbor package")
    if sum(path.stat().st_size for path in paths) > MOST_BYTES:
        raise ConfigError(f"{folder} holds more than {MOST_BYTES // 2**20} MiB: that is no package of ours")
    files = {path.relative_to(folder).as_posix(): path for path in paths}
    executable = frozenset(name for name, path in files.items() if path.stat().st_mode & 0o111)
    return Package({name: path.read_bytes() for name, path in files.items()}, executable)


def _of_seed(ident: str, settings: Settings) -> Package:
    ledger, store = connect.open_ledger(settings), connect.open_store(settings)
    kind, key = resolve(ident, ledger)
    line = next((line for line in task_lines(settings, ledger, store, all_=True) if line.key == key), None)
    if kind != "seed" or line is None:
        raise ConfigError(f"{kind.capitalize()} {key} has no certified task: `facet tasks` lists them")
    return _of_archive(store.get(line.package), key)


def _print(again: Again) -> None:
    ok = sum(probe.ok for probe in again.probes)
    head = f"{again.seed}: {ok} of {len(again.probes)} probes as wanted, level {again.level}, {again.seconds} s"
    out.print(f"{head}: {'agrees' if again.agrees else 'differs'}", markup=False, soft_wrap=True)
    for line in again.differences:
        out.print(f"  {line}", markup=False, soft_wrap=True)


def revalidate(
    level: LevelName = "strict",
    batch: Annotated[str, typer.Option(help="Only the seeds of this batch.")] = "",
    json_: Json = False,  # noqa: FBT002
) -> None:
    """Run the certificate of every accepted task again, without a model, and say which verdicts changed.

    Exit code 0: all stand; 1: some do not; 3: some could not be run, and none changed.
    """
    settings = load_settings()
    ledger, store, depth = connect.open_ledger(settings), connect.open_store(settings), _level(level)
    lines = task_lines(settings, ledger, store, batch)
    say_left_out(left_out(settings, ledger, batch))
    if not lines:
        raise ConfigError("There is no certified task: `facet funnel` counts the losses")
    sandbox = connect.open_sandbox(settings)
    done = []
    for one in run_all(lines, ledger=ledger, store=store, sandbox=sandbox, level=depth, workers=settings.workers):
        done.append(one)
        if not json_:
            _print_one(one)
    say([_told(one) for one in done], lambda: _print_sum(done), as_json=json_)
    changed = any(one.again is not None and not one.again.agrees for one in done)
    raise typer.Exit(DIFFERS if changed else TROUBLE if any(one.trouble for one in done) else 0)


def _told(one: Revalidated) -> dict[str, object]:
    found = one.again
    if found is None:
        return {"key": one.key, "title": one.title, "verdict": "unknown", "trouble": one.trouble}
    data = found.model_dump(mode="json", include={"level", "rejection", "differences", "seconds"})
    return {"key": one.key, "title": one.title, "verdict": _verdict(one), "probes": len(found.probes), **data}


def _verdict(one: Revalidated) -> str:
    if one.again is None:
        return "unknown"
    return "rotten" if one.rotten else "stands" if one.again.agrees else "differs"


def _print_one(one: Revalidated) -> None:
    out.print(f"{one.key}  {_verdict(one):<8} {one.title}", markup=False, soft_wrap=True)
    told = one.again.differences if one.again else (f"could not be run, which is no verdict: {one.trouble}",)
    for line in told:
        out.print(f"  {line}", markup=False, soft_wrap=True)


def _print_sum(done: list[Revalidated]) -> None:
    verdicts = [_verdict(one) for one in done]
    counts = ", ".join(f"{verdicts.count(name)} {name}" for name in ("stands", "differs", "rotten", "unknown"))
    seconds = sum(one.again.seconds for one in done if one.again)
    out.print(f"{len(done)} certificates: {counts}; {seconds:.0f} s of the sandbox")
