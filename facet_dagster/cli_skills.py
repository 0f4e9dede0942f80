"""Commands about skills: what there is, and which fit a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from facet_dagster import connect
from facet_dagster.cli_output import Json, err, out, say
from facet_dagster.domain.skill import Family
from facet_dagster.reports.found_skills import FoundSkill, find
from facet_dagster.reports.taxonomy import Line, Taxonomy, taxonomy_of, write
from facet_dagster.settings import load_settings

skills_app = typer.Typer(help="What skills there are.", no_args_is_help=True)


@skills_app.command()
def report(
    folder: Annotated[Path | None, typer.Argument(help="Where taxonomy.svg, .png and .json are written.")] = None,
    json_: Json = False,  # noqa: FBT002 - an option's default
) -> None:
    """The kept skills by family and category beside the paper's (Tables 3 and 4, Figure 3a)."""
    settings = load_settings()
    found = taxonomy_of(settings, connect.open_ledger(settings), connect.open_store(settings))
    written = write(found, folder) if folder else []
    say(found, lambda: _print_taxonomy(found), as_json=json_)
    for path in written:
        (err if json_ else out).print(str(path), markup=False, soft_wrap=True)


@skills_app.command()
def search(
    text: Annotated[str, typer.Argument(help="What is needed, in a sentence.")],
    family: Annotated[Family | None, typer.Option(help="Only skills of this family.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Skills to show.")] = 10,
    group: Annotated[
        int, typer.Option(min=0, max=4, help="2 to 4: so many skills that add to each other, instead of the nearest.")
    ] = 0,
    json_: Json = False,  # noqa: FBT002 - an option's default
) -> None:
    """The skills that a sentence is about, from the index."""
    settings = load_settings()
    ledger, store = connect.open_ledger(settings), connect.open_store(settings)
    with connect.open_vectors(settings) as vectors:
        found = find(
            text,
            settings=settings,
            ledger=ledger,
            store=store,
            vectors=vectors,
            embedder=connect.open_embedder(settings),
            family=family,
            limit=limit,
            group=group,
        )
    say([one.model_dump(mode="json") for one in found], lambda: _print_found(found), as_json=json_)


def _print_found(found: list[FoundSkill]) -> None:
    for one in found:
        out.print(f"{one.id}  {one.name}", markup=False, soft_wrap=True)
        shown = "; ".join(filter(None, [one.category, one.tier, ", ".join(one.tags)]))
        out.print(f"    {shown}", markup=False, soft_wrap=True, style="dim")
        out.print(f"    {' '.join(one.description.split())[:160]}", markup=False, soft_wrap=True)
    if not found:
        out.print("Nothing was found.")


def _print_taxonomy(found: Taxonomy) -> None:
    table = Table(title=f"{found.skills} skills", title_justify="left", box=None, padding=(0, 1, 0, 0))
    table.add_column("Category", overflow="fold")
    for column in ("Skills", "of all %", "within %", "Paper", "of all %", "within %"):
        table.add_column(column, justify="right")
    for family in found.families:
        table.add_row(*_cells(family), style="bold")
        for line in found.categories:
            if line.family == family.family:
                table.add_row(*_cells(line))
    out.print(table)
    out.print("Categories marked with * are named by us: the paper does not print them.")
    for name, counts in (("Tier", found.tiers), ("Task family", found.tasks)):
        shown = ", ".join(f"{kind} {count}" for kind, count in counts.items())
        out.print(f"{name}: {shown}", soft_wrap=True)
    out.print(f"Dense enough to anchor a seed: {found.dense}. Sure of the category: {found.sure}.")


def _cells(line: Line) -> list[str]:
    def percent(share: float | None) -> str:
        return "" if share is None else f"{100 * share:.2f}"

    title = line.title + ("*" if line.ours else "")
    ours = [str(line.skills), percent(line.share), percent(line.within)]
    paper = ["" if line.paper_skills is None else f"{line.paper_skills:,}"]
    return [title, *ours, *paper, percent(line.paper_share), percent(line.paper_within)]
