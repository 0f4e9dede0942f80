"""Commands that put everything that was measured on one page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from facet_dagster import connect
from facet_dagster.cli_output import Json, err, out, say
from facet_dagster.ports import ArtifactStore, Ledger
from facet_dagster.reports.attempts import as_last_tried, difficulty_report
from facet_dagster.reports.difficulty import Difficulty, Group
from facet_dagster.reports.foreign import Classifier, Foreign, foreign
from facet_dagster.reports.page.home import Home
from facet_dagster.reports.page.page import FILE, VALUES, write
from facet_dagster.reports.page.parts import rate_text
from facet_dagster.reports.task_family import families_of
from facet_dagster.settings import Settings, load_settings

Batch = Annotated[str, typer.Option(help="Only the seeds of this batch.")]
Compare = Annotated[
    list[Path] | None,
    typer.Option(help="A folder with tasks, trials or trajectories of others to compare with; may be repeated."),
]


def report(
    folder: Path,
    batch: Batch = "",
    compare: Compare = None,
    json_: Json = False,  # noqa: FBT002 - an option's default
) -> None:
    """Write one HTML page with every table and picture of the paper from this installation's own run into FOLDER."""
    settings, ledger, store = _opened()
    classifier = _classifier(settings) if compare else None
    others = _read(compare or (), classifier)
    home = Home(
        settings,
        connect.open_counter(settings).name,
        ledger,
        store,
        batch=batch,
        day=datetime.now(UTC).date().isoformat(),
        others=others,
        classifier=classifier,
    )
    found = write(folder, home)
    missing = [section.ident for section in found if section.missing]
    told = {"page": str(folder / FILE), "values": str(folder / VALUES), "sections": len(found), "missing": missing}
    say(told, lambda: _print(folder, [section.missing for section in found if section.missing]), as_json=json_)


def _opened() -> tuple[Settings, Ledger, ArtifactStore]:
    """Under the settings of the last attempts, where no teacher is set."""
    settings = load_settings()
    ledger, store = connect.open_ledger(settings), connect.open_store(settings)
    return as_last_tried(settings, ledger, store), ledger, store


def _classifier(settings: Settings) -> Classifier:
    embedder = connect.open_embedder(settings)

    def families(texts: Iterable[str]) -> dict[str, int]:
        return families_of(texts, embedder)

    return families


def _read(folders: Sequence[Path], classifier: Classifier | None) -> list[Foreign]:
    found = []
    for folder in folders:
        one = foreign(folder, classifier)
        err.print(f"  {one.name}: {one.tasks} tasks, {one.trajectories} trajectories", markup=False)
        found.append(one)
    return found


def _print(folder: Path, missing: Sequence[str]) -> None:
    out.print(f"{folder / FILE}", markup=False, soft_wrap=True)
    for text in dict.fromkeys(missing):
        out.print(f"  {text}", markup=False, soft_wrap=True)


def difficulty(batch: Batch = "", json_: Json = False) -> None:  # noqa: FBT002
    """How often agents solve the tasks: P@1 and P@3 by tag, family and origin, and which tasks to look at."""
    settings, ledger, store = _opened()
    found = difficulty_report(settings, connect.open_counter(settings).name, ledger, store, batch)
    say(found, lambda: _tell(found), as_json=json_)


def _tell(found: Difficulty) -> None:
    named = {"": (found.overall,), "Origin": found.origins, "Family": found.families, "Tag": found.tags}
    for title, groups in named.items():
        if groups:
            out.print(_groups(title, groups))
    for one in found.look:
        out.print(f"  {one.key} {one.solved}/{one.attempts}: {one.why}", markup=False, soft_wrap=True)


def _groups(title: str, groups: Sequence[Group]) -> Table:
    table = Table(title=title or None, title_justify="left")
    for column in ("", "Tasks", "P@1 (95 %)", "P@3 (95 %)", "Bands"):
        table.add_column(column, overflow="fold")
    for group in groups:
        bands = ", ".join(f"{band}: {count}" for band, count in group.bands.items() if count)
        table.add_row(group.name, str(group.tasks), rate_text(group.p1), rate_text(group.p3), bands)
    return table
