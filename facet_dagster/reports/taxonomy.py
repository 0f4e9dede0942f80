"""The user's skills beside the paper's: families, fine categories, tiers (Tables 3 and 4, Figure 3a)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from facet_dagster.domain.outcome import Value
from facet_dagster.domain.seed import TaskFamily
from facet_dagster.domain.skill import Skill
from facet_dagster.domain.taxonomy import Category, Family, Tier
from facet_dagster.errors import ConfigError
from facet_dagster.pipeline.skills import kept_skills
from facet_dagster.ports import ArtifactStore, Ledger
from facet_dagster.settings import Settings
from facet_dagster.stages.curate.categories import described

PAPER_SKILLS = 71_341
TITLES = {
    Family.AI: "AI, agents, and tools",
    Family.SOFTWARE: "Software, systems, and security",
    Family.DATA: "Data, analysis, and research",
    Family.DOCUMENTS: "Documents, productivity, and workflows",
    Family.MULTIMEDIA: "Multimedia, creation, and publishing",
}
PAPER_FAMILIES = {
    Family.AI: 15_182,
    Family.SOFTWARE: 15_059,
    Family.DATA: 12_409,
    Family.DOCUMENTS: 11_267,
    Family.MULTIMEDIA: 17_424,
}
FORMATS = ("svg", "png")


class Line(Value):
    """A family or a category. ``share`` is of all skills, ``within`` of its family; both 0 to 1, as the paper's.

    The paper's figures are None where it prints none; ``ours``: the category's name is not the paper's.
    """

    name: str
    title: str
    family: Family
    skills: int
    share: float
    within: float
    paper_skills: int | None
    paper_share: float | None
    paper_within: float | None
    ours: bool = False


class Taxonomy(Value):
    """Skills of a corpus by Tables 3 and 4. ``sure`` and ``dense`` are counts; ``other_family``: of skills whose
    category lies in another family than the one that stands in prompts."""

    skills: int
    families: tuple[Line, ...]
    categories: tuple[Line, ...]
    tiers: dict[Tier, int]
    tasks: dict[TaskFamily, int]
    sure: int
    dense: int
    other_family: int


def taxonomy_of(settings: Settings, ledger: Ledger, store: ArtifactStore) -> Taxonomy:
    """Of the skills that were kept. Raises ConfigError when there is none."""
    skills = kept_skills(settings, ledger, store)
    if not skills:
        raise ConfigError("No skill is classified yet: `facet ingest PATH`, then `facet run --until skills`")
    return taxonomy(skills.values())


def taxonomy(skills: Iterable[Skill]) -> Taxonomy:
    """Pure over values; skills without a classification are left out."""
    known = [(skill, skill.classified) for skill in skills if skill.classified]
    counts = Counter(found.category for _, found in known)
    families = Counter(found.category.family for _, found in known)
    return Taxonomy(
        skills=len(known),
        families=tuple(_family(family, families[family], len(known)) for family in Family),
        categories=tuple(_category(category, counts, families, len(known)) for category in Category),
        tiers={tier: sum(found.tier is tier for _, found in known) for tier in Tier},
        tasks={task: sum(found.task is task for _, found in known) for task in TaskFamily},
        sure=sum(found.sure for _, found in known),
        dense=sum(found.dense for _, found in known),
        other_family=sum(skill.family != found.category.family for skill, found in known),
    )


def _family(family: Family, count: int, total: int) -> Line:
    paper = PAPER_FAMILIES[family]
    return Line(
        name=family,
        title=TITLES[family],
        family=family,
        skills=count,
        share=_share(count, total),
        within=1.0,
        paper_skills=paper,
        paper_share=_share(paper, PAPER_SKILLS),
        paper_within=1.0,
    )


def _category(category: Category, counts: Counter[Category], families: Counter[Family], total: int) -> Line:
    text, family = described()[category], category.family
    return Line(
        name=category,
        title=text.title,
        family=family,
        skills=counts[category],
        share=_share(counts[category], total),
        within=_share(counts[category], families[family]),
        paper_skills=text.skills,
        paper_share=None if text.skills is None else _share(text.skills, PAPER_SKILLS),
        paper_within=None if text.skills is None else _share(text.skills, PAPER_FAMILIES[family]),
        ours=text.ours,
    )


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0


def write(found: Taxonomy, folder: Path) -> list[Path]:
    """The picture as SVG and PNG and the values as JSON, below ``folder``, which is made. Raises ConfigError."""
    from facet_dagster.reports.taxonomy_picture import draw

    try:
        folder.mkdir(parents=True, exist_ok=True)
        values = folder / "taxonomy.json"
        values.write_text(found.model_dump_json(indent=1) + "\n", encoding="utf-8")
        pictures = [folder / f"taxonomy.{kind}" for kind in FORMATS]
        draw(found, pictures)
    except OSError as error:
        raise ConfigError(f"Cannot write the report to {folder}: {error.strerror}") from error
    return [values, *pictures]
