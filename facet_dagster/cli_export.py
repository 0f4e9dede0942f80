"""`facet export`: what was accepted, written to folders that others can use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from facet_dagster import connect
from facet_dagster.cli_output import Json, err, out, say
from facet_dagster.domain.dataset import LeftOut
from facet_dagster.ports import Embedder
from facet_dagster.reports.datasets import Kind, dataset
from facet_dagster.reports.exports import Publish, harbor_set, left_text
from facet_dagster.reports.tasks import tasks as task_lines
from facet_dagster.reports.tasks import withdrawn
from facet_dagster.settings import Settings, load_settings

export_app = typer.Typer(
    help="Write what was accepted to a folder, which appears when it is whole.", no_args_is_help=True
)
Batch = Annotated[str, typer.Option(help="Only the seeds of this batch.")]
Limit = Annotated[int, typer.Option(min=0, help="At most so many rows, families in balance; 0: all.")]
PerSkill = Annotated[int, typer.Option(min=0, help="A skill serves at most so many rows; 0: any number.")]
HeldOut = Annotated[
    float | None, typer.Option(min=0, max=0.99, help="Share of the tasks to hold out; FACET_HELD_OUT when not given.")
]
Number = Annotated[
    int | None, typer.Option("--split-number", min=0, help="Another number holds out other tasks; FACET_SPLIT_NUMBER.")
]
Benchmarks = Annotated[
    Path | None, typer.Option(help="Benchmark tasks that nothing may repeat; FACET_BENCHMARKS when not given.")
]
Images = Annotated[
    str, typer.Option(help="Also publish the images, pinned by digest: oci:FOLDER, or a repository to push to.")
]
Repository = Annotated[str, typer.Option(help="With oci: under which name the images will be found.")]


@export_app.command("harbor")
def export_harbor(
    folder: Path,
    batch: Batch = "",
    held_out: HeldOut = None,
    split_number: Number = None,
    benchmarks: Benchmarks = None,
    images: Images = "",
    repository: Repository = "localhost/facet",
    json_: Json = False,  # noqa: FBT002 - an option's default
) -> None:
    """Write the certified tasks as Harbor packages below FOLDER, with a row for each, a manifest and a card."""
    settings = chosen(load_settings(), held_out, split_number, benchmarks)
    ledger, store = connect.open_ledger(settings), connect.open_store(settings)
    for stale in withdrawn(folder, ledger, {line.key for line in task_lines(settings, ledger, store)}):
        text = f"{stale} was exported before and is not certified any more: it is left out now"
        err.print(text, markup=False, soft_wrap=True)
    made = harbor_set(
        folder,
        settings,
        ledger,
        store,
        batch=batch,
        embedder=embedder_for(settings),
        images=(lambda: published(settings, images, repository)) if images else None,
        images_in=images,
    )
    told(made.refused)
    written = [str(folder / key) for key in (*made.splits.train, *made.splits.held_out)]
    say(sorted(written), lambda: out.print(f"{len(written)} packages below {folder}"), as_json=json_)


@contextmanager
def published(settings: Settings, images: str, repository: str) -> Iterator[Publish]:
    with connect.open_publisher(settings, images, repository) as publish:
        yield publish


@export_app.command("sft")
def export_sft(
    folder: Path,
    batch: Batch = "",
    limit: Limit = 0,
    per_skill: PerSkill = 0,
    held_out: HeldOut = None,
    split_number: Number = None,
    benchmarks: Benchmarks = None,
    json_: Json = False,  # noqa: FBT002
) -> None:
    """Write the accepted trajectories as a dataset for supervised fine-tuning into FOLDER."""
    settings = chosen(load_settings(), held_out, split_number, benchmarks)
    _trajectories("sft", folder, settings, batch, limit, per_skill, as_json=json_)


@export_app.command("near-miss")
def export_near_miss(
    folder: Path,
    batch: Batch = "",
    held_out: HeldOut = None,
    split_number: Number = None,
    benchmarks: Benchmarks = None,
    json_: Json = False,  # noqa: FBT002
) -> None:
    """Write failed trajectories that missed one or two checks, with what every check said, into FOLDER."""
    settings = chosen(load_settings(), held_out, split_number, benchmarks)
    _trajectories("near-miss", folder, settings, batch, 0, 0, as_json=json_)


def chosen(settings: Settings, held_out: float | None, number: int | None, benchmarks: Path | None) -> Settings:
    """The settings, with what was given on the command line.

    A folder that is named here is looked at by this export alone: stored results stay as they are.
    """
    given = {"held_out": held_out, "split_number": number}
    return settings.model_copy(update={name: value for name, value in given.items() if value is not None}).model_copy(
        update={"export_benchmarks": benchmarks} if benchmarks else {}
    )


def embedder_for(settings: Settings) -> Embedder | None:
    """Loaded only where there is something to compare with."""
    return connect.open_embedder(settings) if settings.compared_with else None


def told(left: tuple[LeftOut, ...] | list[LeftOut]) -> None:
    for line in left_text(left):
        err.print(line, markup=False, soft_wrap=True)


def _trajectories(
    kind: Kind, folder: Path, settings: Settings, batch: str, limit: int, per_skill: int, *, as_json: bool
) -> None:
    ledger, store = connect.open_ledger(settings), connect.open_store(settings)
    made: dict[str, Any] = dataset(
        kind,
        folder,
        settings,
        connect.open_counter(settings).name,
        ledger,
        store,
        batch=batch,
        limit=limit,
        per_skill=per_skill,
        embedder=embedder_for(settings),
    )
    told([LeftOut.model_validate(one) for one in made["refused"]])
    say(made, lambda: out.print(f"{made['rows']} rows on {made['tasks']} tasks in {folder}"), as_json=as_json)
