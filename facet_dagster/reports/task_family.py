"""To which of the nine families a task belongs by its instruction alone, without a model (paper, Figure 3b).

The classifier of skills reads the instruction as if it were a skill's text: it measures other people's tasks and our
own alike, which the family that a scenario states cannot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from facet_dagster.domain.ids import digest
from facet_dagster.domain.skill import Licence, Skill, describe
from facet_dagster.domain.taxonomy import Family
from facet_dagster.ports import Embedder
from facet_dagster.stages.curate.classify import classify

MOST = 500  # tasks that are read, chosen by the digest of their texts


def families_of(texts: Iterable[str], embedder: Embedder) -> dict[str, int]:
    """Family -> tasks, of at most MOST texts. Raises EmbedderError."""
    chosen = sorted((text for text in texts if text.strip()), key=digest)[:MOST]
    skills = [_as_skill(text) for text in chosen]
    if not skills:
        return {}
    vectors = embedder.encode([describe(skill.name, skill.description, skill.body) for skill in skills])
    found: Sequence[str] = [str(one.task) for one in classify(skills, vectors, embedder=embedder)]
    return dict(Counter(found).most_common())


def _as_skill(text: str) -> Skill:
    lines = [line.strip("# ") for line in text.splitlines() if line.strip()]
    return Skill(
        id=digest(text),
        name=lines[0][:80],
        title=lines[0][:80],
        description=" ".join(lines[1:])[:400],
        body=text,
        family=Family.DATA,  # not looked at
        licence=Licence(spdx="", allowed=True, evidence=""),
        source="",
        origin="",
    )
