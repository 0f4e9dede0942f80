"""How often code agrees with a reader: the labels of ``tests/fixtures/labels``, over the sample in FACET_SAMPLE."""

from __future__ import annotations

from collections import Counter

import pytest

from facet_dagster.adapters.sentence_transformers_embedder import SentenceTransformersEmbedder
from facet_dagster.domain.taxonomy import Category, Classification, Tier
from facet_dagster.stages.curate.classify import classified
from tests.fixtures.labelled import Label, labels, needs_sample, sample_skills

Pairs = list[tuple[Label, Classification]]


def judged(wanted: list[Label]) -> Pairs:
    skills = sample_skills(label.row for label in wanted)
    done = classified([skills[label.row] for label in wanted], embedder=SentenceTransformersEmbedder("float32"))
    return [(label, skill.classified) for label, skill in zip(wanted, done, strict=True) if skill.classified]


def shares(pairs: Pairs) -> dict[str, float]:
    """Shares of the labels: family, category, the same where a second label counts too, tier; and of the sure."""
    sure = [(label, found) for label, found in pairs if found.sure]

    def share(hits: list[bool]) -> float:
        return round(sum(hits) / len(hits), 3)

    return {
        "family": share([found.category.family == label.category.family for label, found in pairs]),
        "category": share([found.category == label.category for label, found in pairs]),
        "family_either": share([found.category.family in _families(label) for label, found in pairs]),
        "category_either": share([found.category in (label.category, label.also) for label, found in pairs]),
        "tier": share([found.tier == label.tier for label, found in pairs]),
        "sure": share([found.sure for _, found in pairs]),
        "category_of_sure": share([found.category == label.category for label, found in sure]),
    }


def _families(label: Label) -> set[object]:
    return {category.family for category in (label.category, label.also) if category}


def confusion(pairs: Pairs) -> str:
    wrong = Counter((str(a.category.family), str(b.category.family)) for a, b in pairs if b.category != a.category)
    return ", ".join(f"{one} as {other}: {count}" for (one, other), count in wrong.most_common())


@needs_sample
@pytest.mark.parametrize(
    ("name", "part", "family", "category"),
    [("categories", 1, 0.80, 0.60), ("unseen", None, 0.72, 0.60)],
    ids=["the half that did not calibrate", "rows nobody had read"],
)
def test_code_agrees_with_a_reader(
    name: str, part: int | None, family: float, category: float, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = judged(labels(name) if part is None else labels(name)[part::2])
    found = shares(pairs)
    with capsys.disabled():
        print(f"\n{name}, {len(pairs)} rows: {found}; {confusion(pairs)}")
    assert found["family"] >= family
    assert found["category"] >= category
    assert found["tier"] >= 0.55


def test_the_labels_are_whole() -> None:
    first, second = labels("categories"), labels("unseen")
    rows = [label.row for label in (*first, *second)]
    assert (len(first), len(second)) == (180, 100)
    assert len(set(rows)) == len(rows)
    assert {label.category.family for label in first} == {category.family for category in Category}
    assert {label.tier for label in first} == set(Tier)
