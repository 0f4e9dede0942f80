"""Checks of stage 1 as a whole, and what its runs show: counts, reasons of drops, a small plot.

The stages log the checks themselves: they yield no output, and a check of its own would be skipped without one.
"""

from collections.abc import Mapping, Sequence

import dagster as dg

from assets.run_summary import bars
from facet_dagster.domain.outcome import StageResult
from facet_dagster.ports import ArtifactStore, Ledger, VectorStore
from facet_dagster.reports.corpus_health import LEAST_SURVIVAL, Survival, index_health, survival, survival_of
from facet_dagster.settings import Settings

SHOWN = 20


SURVIVAL = dg.AssetCheckSpec(
    "survival_within_bounds", asset="skills", description="Does about as much of the corpus pass cleaning as of others?"
)
NO_ORPHAN = dg.AssetCheckSpec(
    "no_orphan", asset="skill_index", description="Are exactly the kept skills in the vector store?"
)
NO_DUPLICATE_ID = dg.AssetCheckSpec(
    "no_duplicate_id", asset="skill_index", description="Does every skill stand in one bucket, its own?"
)


def check_survival(settings: Settings, ledger: Ledger) -> list[dg.AssetCheckEvaluation]:
    """Far fewer survivors than usual point to a cleaner that is too eager, or to a bad source."""
    found = survival(settings, ledger)
    text = f"{found.share:.1%} of {found.collected:,} skills pass cleaning; at least {LEAST_SURVIVAL:.0%} are expected."
    return [_evaluation(SURVIVAL, text, counts(found), passed=found.within_bounds)]


def check_index(
    settings: Settings, ledger: Ledger, store: ArtifactStore, vectors: VectorStore
) -> list[dg.AssetCheckEvaluation]:
    """What is in the store and not kept would be proposed as a partner; two entries with one id hide each other."""
    found = index_health(settings, ledger, store, vectors)
    text = f"{found.points:,} points, {len(found.orphans):,} without a kept skill, {len(found.missing):,} lacking."
    lists = {"orphans": found.orphans, "missing": found.missing}
    doubles = f"{len(found.doubles):,} ids stand twice or in a wrong bucket."
    return [
        _evaluation(NO_ORPHAN, text, _some(lists), passed=not found.orphans and not found.missing),
        _evaluation(NO_DUPLICATE_ID, doubles, _some({"ids": found.doubles}), passed=not found.doubles),
    ]


def _some(lists: Mapping[str, Sequence[str]]) -> dict[str, dg.MetadataValue]:
    return {name: dg.MetadataValue.json(list(ids[:SHOWN])) for name, ids in lists.items()}


def _evaluation(
    spec: dg.AssetCheckSpec, text: str, shown: dict[str, dg.MetadataValue], *, passed: bool
) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        asset_key=spec.asset_key,
        check_name=spec.name,
        passed=passed,
        severity=dg.AssetCheckSeverity.WARN,
        description=text,
        metadata=shown,
    )


def run_summary(results: Sequence[StageResult]) -> dict[str, dg.MetadataValue]:
    """What the buckets of one run of ``skills`` came to."""
    return counts(survival_of([result.numbers for result in results]))


def counts(found: Survival) -> dict[str, dg.MetadataValue]:
    """Counts, drops by reason, and both as bars."""
    outcomes = {"kept": found.kept, **dict(sorted(found.dropped.items(), key=lambda item: -item[1]))}
    return {
        "collected": dg.MetadataValue.int(found.collected),
        "passed cleaning": dg.MetadataValue.int(found.passed),
        "kept": dg.MetadataValue.int(found.kept),
        "dropped": dg.MetadataValue.json(found.dropped),
        "plot": bars(outcomes),
    }
