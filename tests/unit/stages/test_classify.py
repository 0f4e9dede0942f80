"""Fine categories, tiers, density and tags of skills that are plain cases."""

from __future__ import annotations

import pytest

from facet_dagster.adapters.memory import HashEmbedder
from facet_dagster.adapters.sentence_transformers_embedder import SentenceTransformersEmbedder
from facet_dagster.domain.skill import Licence, Skill
from facet_dagster.domain.taxonomy import Category, Family, Tier
from facet_dagster.stages.curate.categories import described, patterns
from facet_dagster.stages.curate.classify import TAGS, classified
from facet_dagster.stages.curate.suitability import dense

PROCEDURE = (
    """# {title}

## Steps

1. Read every row of `orders.csv` and keep those with a status.
2. Drop rows whose amount is below 0.5, and never drop the header.
3. Convert dates to ISO 8601; a date without a year must be refused.
4. Sort by customer, then by date, at most 1000 rows a file.
5. Write `clean.csv` and `report.json`, exactly one line a customer.

| column | type | unit |
|---|---|---|
| id | integer | - |
| amount | decimal | 2 digits |
| date | ISO 8601 | day |

```bash
python clean.py orders.csv --min 0.5 --limit 1000
```

```python
print(sum(row["amount"] for row in rows))
```

Always check the totals: they must agree within 0.01, otherwise stop.
"""
    + "Keep the order of columns as it stands in the file. " * 4
)


def skill(name: str, description: str, body: str = PROCEDURE) -> Skill:
    return Skill(
        id=f"folder-{name}",
        name=name,
        title=name,
        description=description,
        body=body.replace("{title}", name),
        family=Family.AI,
        licence=Licence(spdx="MIT", allowed=True, evidence="test"),
        source="folder",
        origin=name,
    )


PLAIN = {
    "git-commit-helper": ("Write conventional commit messages and rebase git branches.", Category.SOFTWARE_GIT),
    "postgres-query-tuner": ("Tune slow SQL queries in a PostgreSQL database.", Category.DATA_DATABASES),
    "subtitle-cutter": ("Cut video with ffmpeg and shift subtitles.", Category.MULTIMEDIA_VIDEO),
    "pdf-merge": ("Merge and split PDF files and fill PDF forms.", Category.DOCUMENTS_OFFICE),
    "mcp-server-maker": ("Build a Model Context Protocol (MCP) server.", Category.AI_MCP),
    "seo-audit": ("Audit keywords, titles and meta tags of a page for search engines.", Category.MULTIMEDIA_MARKETING),
    "csv-cleaner": ("Join CSV files and Excel spreadsheets with pandas.", Category.DATA_TABLES),
}


@pytest.fixture(scope="module")
def plain() -> dict[str, Skill]:
    skills = [skill(name, description) for name, (description, _) in PLAIN.items()]
    return {item.name: item for item in classified(skills, embedder=SentenceTransformersEmbedder("float32"))}


@pytest.mark.parametrize(("name", "category"), [(name, category) for name, (_, category) in PLAIN.items()])
def test_plain_cases_get_their_category(plain: dict[str, Skill], name: str, category: Category) -> None:
    found = plain[name].classified
    assert found is not None
    assert found.category == category
    assert found.task == described()[category].task


def test_tags_are_few_short_and_out_of_the_closed_list(plain: dict[str, Skill]) -> None:
    known = {word for words in patterns().values() for word, whole, _ in words if whole}
    for item in plain.values():
        assert item.classified is not None
        tags = item.classified.tags
        assert set(tags) <= known
        assert len(tags) <= TAGS
        assert all(tag == tag.lower() and len(tag.split()) <= 3 for tag in tags)
    git = plain["git-commit-helper"].classified
    assert git is not None
    assert git.tags[:2] == ("commit", "git")


def test_every_category_of_the_paper_is_described_and_four_are_ours() -> None:
    texts = described()
    assert len(texts) == 34
    assert sum(text.skills or 0 for text in texts.values()) == 71_341 - 8_459
    assert [category.family for category, text in texts.items() if text.ours] == [Family.MULTIMEDIA] * 4
    assert all((text.skills is None) == text.ours for text in texts.values())
    assert all(len(text.like) >= 3 and len(text.words) >= 3 for text in texts.values())


def test_the_family_of_the_prompts_is_judged_as_before() -> None:
    from facet_dagster.domain.skill import describe
    from facet_dagster.stages.curate.family import families

    skills = [skill(name, description) for name, (description, _) in PLAIN.items()]
    embedder = HashEmbedder()
    wanted = families([describe(s.name, s.description, s.body) for s in skills], embedder=embedder)
    assert [item.family for item in classified(skills, embedder=embedder)] == wanted


def test_nothing_is_classified_without_skills() -> None:
    assert classified([], embedder=HashEmbedder()) == []


def test_a_procedure_is_dense_and_a_topic_is_not() -> None:
    assert dense(skill("a", "b"))
    assert not dense(skill("a", "b", "# A\n\nYou are an expert in data. Be helpful and think about quality.\n" * 20))
    assert not dense(skill("a", "b", ""))


TIERS = {
    Tier.OFFLINE: ("csv-cleaner", "Join CSV files with pandas.", PROCEDURE),
    Tier.MOCK: (
        "crm-sync",
        "Keep contacts of a CRM in step by its API.",
        PROCEDURE
        + "\nSet CRM_API_KEY. Then:\n\n```bash\ncurl -H 'Authorization: Bearer $T' https://api.crm.example/v1\n```\n",
    ),
    Tier.NOT_TERMINAL: (
        "kind-words",
        "Write warm letters to friends.",
        "# Kind words\n\nThink of the reader. Be warm. Tell a story.\n" * 10,
    ),
}


@pytest.mark.parametrize(("tier", "case"), TIERS.items())
def test_tiers_of_plain_cases(tier: Tier, case: tuple[str, str, str]) -> None:
    [found] = classified([skill(*case)], embedder=SentenceTransformersEmbedder("float32"))
    assert found.classified is not None
    assert found.classified.tier == tier
