"""The page: every section, rendered into one file that holds its pictures and asks for nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from facet_dagster import __version__
from facet_dagster.errors import ConfigError
from facet_dagster.reports.page import (
    commands,
    datasets,
    difficulty,
    experiments,
    funnel,
    release,
    repairs,
    rollouts,
    skills,
    tests,
    training,
)
from facet_dagster.reports.page.home import Home
from facet_dagster.reports.page.parts import Note, Picture, Section, Table, markdown

SECTIONS: tuple[Callable[[Home], Section | tuple[Section, ...]], ...] = (
    funnel.section,
    skills.taxonomy,
    skills.task_families,
    rollouts.outcome,
    rollouts.missed,
    difficulty.by_tag,
    difficulty.difficulty,
    experiments.orders,
    experiments.end_to_end,
    datasets.section,
    commands.section,
    tests.section,
    training.manifest,
    training.results,
    repairs.section,
    release.limits,
    release.card,
)
MAIN = ("funnel", "rollouts", "difficulty", "tags", "sft", "repairs")  # shown by the asset
FILE, VALUES = "report.html", "report.json"
_HERE = Path(__file__).parent


def sections(home: Home) -> Iterator[Section]:
    """All of them, in the order of the page."""
    for make in SECTIONS:
        made = make(home)
        yield from made if isinstance(made, tuple) else (made,)


def render(found: Sequence[Section], home: Home) -> str:
    """The HTML. Every text is escaped; the policy in its head lets no script run and nothing be loaded."""
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    kinds = {Table: "table", Picture: "picture", Note: "note"}
    return environment.get_template("page.html").render(
        sections=found,
        kind=lambda part: kinds[type(part)],
        day=home.day,
        batch=home.batch,
        seeds=len(home.seeds),
        certified=len(home.accepted("certificate")),
        attempts=len(home.rows),
        version=__version__,
    )


def write(folder: Path, home: Home) -> list[Section]:
    """report.html and report.json in ``folder``, each put in its place when it is whole. Raises ConfigError."""
    found = list(sections(home))
    page = render(found, home)
    values = json.dumps([_plain(section) for section in found], ensure_ascii=False, indent=1)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in ((VALUES, values), (FILE, page)):
            aside = folder / f".{name}.part-{os.getpid()}"
            try:
                aside.write_text(text, encoding="utf-8")
                aside.replace(folder / name)
            finally:
                aside.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"Cannot write the report to {folder}: {error.strerror}") from error
    return found


def _plain(section: Section) -> dict[str, object]:
    return {
        "id": section.ident,
        "title": section.title,
        "source": section.source,
        "protocol": section.ours,
        "paper_protocol": section.paper,
        "missing": section.missing,
        "tables": [{"title": t.title, "columns": t.columns, "rows": t.rows} for t in section.tables],
    }


def main_tables(found: Sequence[Section]) -> dict[str, str]:
    """Section -> its tables as Markdown, for the asset."""
    told = {}
    for section in found:
        if section.ident in MAIN:
            head = f"{section.missing}\n\n" if section.missing else ""
            told[section.ident] = head + "\n\n".join(markdown(one) for one in section.tables)
    return told
