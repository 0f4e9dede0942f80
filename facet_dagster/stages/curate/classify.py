"""Fine categories: the nearest written descriptions, and the words that a skill uses (paper, Table 4).

Measured by hand-made labels: ``tests/unit/stages/test_classify_sample.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from facet_dagster.domain.skill import Skill, describe
from facet_dagster.domain.taxonomy import Category, Classification, Family
from facet_dagster.ports import Embedder, Vectors
from facet_dagster.stages.curate import suitability
from facet_dagster.stages.curate.categories import described, patterns
from facet_dagster.stages.curate.family import nearest
from facet_dagster.stages.curate.sentences import sentence_vectors

CLOSEST = 3  # sentences of a category that count
PER_WORD, MOST_WORDS = 0.04, 4.0  # cosine that a word is worth; a word in the name counts twice, in a heading half
NAME, DESCRIPTION, HEADING = 2.0, 1.0, 0.5
SHARPNESS = 0.02  # of the vote of a family's categories for their family
SURE = 0.05  # margin above which four of five categories were right on the labels that this was calibrated on
TAGS = 5

_ORDER = tuple(Category)
_FAMILY_OF = np.array([tuple(Family).index(category.family) for category in _ORDER])
Scores = NDArray[np.float64]


def classified(skills: Sequence[Skill], *, embedder: Embedder) -> list[Skill]:
    """The same skills with family and classification; each text is embedded once. Raises EmbedderError."""
    if not skills:
        return []
    vectors = embedder.encode([describe(s.name, s.description, s.body) for s in skills])
    families = nearest(vectors, embedder=embedder)
    found = classify(skills, vectors, embedder=embedder)
    return [
        skill.model_copy(update={"family": family, "classified": classification})
        for skill, family, classification in zip(skills, families, found, strict=True)
    ]


def classify(skills: Sequence[Skill], vectors: Vectors, *, embedder: Embedder) -> list[Classification]:
    """One classification for each skill; ``vectors`` are those of ``describe``. Raises EmbedderError."""
    words = [_words(skill) for skill in skills]
    scores = _closeness(vectors, embedder)
    scores = scores + PER_WORD * np.minimum(np.array([_weights(hits) for hits in words]), MOST_WORDS)
    return [_one(*item) for item in zip(skills, scores, words, strict=True)]


def _closeness(vectors: Vectors, embedder: Embedder) -> Scores:
    texts = [text.sentences() for text in described().values()]
    rows = sentence_vectors(tuple(sentence for group in texts for sentence in group), embedder)
    groups = np.split(rows, np.cumsum([len(group) for group in texts])[:-1])
    columns = [np.sort(vectors @ group.T, axis=1)[:, -CLOSEST:].mean(axis=1) for group in groups]
    return np.stack(columns, axis=1).astype(np.float64)


Hit = tuple[float, str]  # the word stands there only when it can be a tag: no mere beginning of a word


def _words(skill: Skill) -> dict[Category, list[Hit]]:
    """The words of each category that occur in what a skill is compared by, with their weights."""
    name = skill.name.replace("-", " ").replace("_", " ").lower()
    description = skill.description[:400].lower()
    whole = describe(name, description, skill.body).lower()
    found: dict[Category, list[Hit]] = {}
    for category, known in patterns().items():
        for word, is_whole, pattern in known:
            if word in whole and pattern.search(whole):
                weight = NAME if pattern.search(name) else DESCRIPTION if pattern.search(description) else HEADING
                found.setdefault(category, []).append((weight, word if is_whole else ""))
    return found


def _weights(hits: dict[Category, list[Hit]]) -> list[float]:
    return [sum(weight for weight, _ in hits.get(category, ())) for category in _ORDER]


def _one(skill: Skill, scores: Scores, words: dict[Category, list[Hit]]) -> Classification:
    """The family with most votes, and its best category; ties in the order of Table 4."""
    scores = np.round(scores, 4)  # the last digits differ between number formats
    votes = np.exp((scores - scores.max()) / SHARPNESS)
    family = int(np.argmax(np.bincount(_FAMILY_OF, weights=votes, minlength=len(Family))))
    best = int(np.argmax(np.where(family == _FAMILY_OF, scores, -np.inf)))
    margin = round(float(scores[best] - np.max(np.delete(scores, best))), 4)
    category = _ORDER[best]
    return Classification(
        category=category,
        margin=margin,
        sure=margin >= SURE,
        task=described()[category].task,
        tier=suitability.tier(skill, category),
        dense=suitability.dense(skill),
        tags=_tags(category, words),
    )


def _tags(category: Category, words: dict[Category, list[Hit]]) -> tuple[str, ...]:
    """The strongest words, those of the skill's own category first: plain, lower case, out of a closed list."""
    ranked = [
        (-weight, other is not category, word)
        for other, hits in words.items()
        for weight, word in hits
        if word and word.isascii() and weight > HEADING
    ]
    return tuple(dict.fromkeys(word for *_, word in sorted(ranked)))[:TAGS]
