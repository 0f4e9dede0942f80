"""Stage 1, second step: read, clean, license, deduplicate and classify skills (paper, section 3.1).

A skill that is dropped is a row with a reason, never an exception.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from facet_dagster.domain.outcome import Rejection
from facet_dagster.domain.skill import BucketDecisions, Curated, RawSkill, Skill
from facet_dagster.ports import Embedder
from facet_dagster.stages.curate import classify, dedup
from facet_dagster.stages.curate.examine import Policy, examine, masked, take

__all__ = ["DEFAULT", "VERSION", "Policy", "conclude", "curate", "examine", "masked", "take"]

VERSION = "3"
DEFAULT = Policy()


def curate(raws: Sequence[tuple[RawSkill, bytes]], *, embedder: Embedder, policy: Policy = DEFAULT) -> list[Curated]:
    """One Curated for each raw skill, in the same order. Duplicates are found among all that are given.

    Raises EmbedderError.
    """
    first = {raw.id: examine(raw, data, policy) for raw, data in raws}
    passed = [found for found in first.values() if isinstance(found, Skill)]
    decisions = BucketDecisions(duplicates=dedup.duplicates(passed))
    return conclude([(raw.id, raw.origin, first[raw.id]) for raw, _ in raws], decisions, embedder=embedder)


def conclude(
    rows: Iterable[tuple[str, str, Skill | Rejection]], decisions: BucketDecisions, *, embedder: Embedder
) -> list[Curated]:
    """One Curated for each (id, origin, what ``examine`` said), in the same order. Raises EmbedderError."""
    rows = list(rows)
    kept = [s for _, _, s in rows if isinstance(s, Skill) and s.id not in decisions.duplicates]
    final = {skill.id: skill for skill in classify.classified(kept, embedder=embedder)}
    return [_curated(ident, origin, found, final, decisions) for ident, origin, found in rows]


def _curated(
    ident: str, origin: str, found: Skill | Rejection, final: Mapping[str, Skill], decisions: BucketDecisions
) -> Curated:
    if isinstance(found, Rejection):
        return Curated(id=ident, origin=origin, rejection=found)
    if double := decisions.duplicates.get(ident):
        return Curated(id=ident, origin=origin, rejection=dedup.rejection(double), duplicate_of=double.of)
    return Curated(id=ident, origin=origin, skill=final[ident], alike=decisions.alike.get(ident))
