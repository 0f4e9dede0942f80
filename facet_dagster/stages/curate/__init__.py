"""Stage 1, second step: read, clean, license, deduplicate and classify skills (paper, section 3.1).

A skill that is dropped is a row with a reason, never an exception.
"""

from __future__ import annotations

from collections.abc import Sequence

from facet_dagster.domain.outcome import Rejection
from facet_dagster.domain.skill import Curated, RawSkill, Skill, describe
from facet_dagster.ports import Embedder
from facet_dagster.stages.curate import dedup, family
from facet_dagster.stages.curate.examine import Policy, examine, masked, take

__all__ = ["DEFAULT", "VERSION", "Policy", "curate", "examine", "masked", "take"]

VERSION = "2"
DEFAULT = Policy()


def curate(raws: Sequence[tuple[RawSkill, bytes]], *, embedder: Embedder, policy: Policy = DEFAULT) -> list[Curated]:
    """One Curated for each raw skill, in the same order. Duplicates are found among all that are given.

    Raises EmbedderError.
    """
    first = [examine(raw, data, policy) for raw, data in raws]
    unique = {skill.id: skill for skill in first if isinstance(skill, Skill)}
    doubles = dedup.duplicates(list(unique.values()))
    kept = [skill for skill in unique.values() if skill.id not in doubles]
    named = family.families([describe(s.name, s.description, s.body) for s in kept], embedder=embedder)
    final = {s.id: s.model_copy(update={"family": f}) for s, f in zip(kept, named, strict=True)}
    return [_curated(raw, found, final, doubles) for (raw, _), found in zip(raws, first, strict=True)]


def _curated(
    raw: RawSkill, found: Skill | Rejection, final: dict[str, Skill], doubles: dict[str, dedup.Duplicate]
) -> Curated:
    if isinstance(found, Rejection):
        return Curated(id=raw.id, origin=raw.origin, rejection=found)
    if raw.id in doubles:
        of, why = doubles[raw.id]
        return Curated(id=raw.id, origin=raw.origin, rejection=why, duplicate_of=of)
    return Curated(id=raw.id, origin=raw.origin, skill=final[raw.id])
