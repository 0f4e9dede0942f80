"""Under which licences the skills are that something was made from, and on what evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from facet_dagster.domain.facts import SkillFact, StageFact
from facet_dagster.domain.ids import bucket_of
from facet_dagster.domain.skill import BucketSkills, Curated
from facet_dagster.ports import ArtifactStore, Ledger
from facet_dagster.stages.curate.licence import share_alike


def licences(skills: Iterable[str], ledger: Ledger) -> Mapping[str, str]:
    """Skill -> SPDX identifier, as stage 1 found it last."""
    return {fact.skill: fact.licence for fact in ledger.find(SkillFact, skill=list(skills)) if fact.licence}


def shared_alike(found: Iterable[str]) -> bool:
    """Whether what is made from skills under these licences must be shared under the same one."""
    return any(map(share_alike, found))


def curated_last(ident: str, ledger: Ledger, store: ArtifactStore) -> Curated | None:
    """What stage 1 said last about a skill, whole; None when it said nothing."""
    for fact in reversed(ledger.find(StageFact, stage="skills", key=bucket_of(ident))):
        if fact.result.output is not None:
            items = BucketSkills.model_validate_json(store.get(fact.result.output)).items
            return next((item for item in items if item.id == ident), None)
    return None
