"""Checks of stage 1 as a whole, and what its runs show: counts, reasons of drops, a small plot."""

from collections.abc import Sequence

import dagster as dg

from facet_dagster.domain.outcome import StageResult
from facet_dagster.ports import ArtifactStore, Ledger, VectorStore
from facet_dagster.reports.corpus_health import LEAST_SURVIVAL, Survival, index_health, survival, survival_of
from facet_dagster.settings import Settings

SHOWN = 20
WIDTH = 40


@dg.asset_check(asset="skills", description="Does about as much of the corpus pass cleaning as of others?")
def survival_within_bounds(
    settings: dg.ResourceParam[Settings], ledger: dg.ResourceParam[Ledger]
) -> dg.AssetCheckResult:
    """Far fewer survivors than usual point to a cleaner that is too eager, or to a bad source."""
    found = survival(settings, ledger)
    text = f"{found.share:.1%} of {found.collected:,} skills pass cleaning; at least {LEAST_SURVIVAL:.0%} are expected."
    return _result(found.within_bounds, text, counts(found))


@dg.asset_check(asset="skill_index", description="Are exactly the kept skills in the vector store?")
def no_orphan(
    settings: dg.ResourceParam[Settings],
    ledger: dg.ResourceParam[Ledger],
    store: dg.ResourceParam[ArtifactStore],
    vectors: dg.ResourceParam[VectorStore],
) -> dg.AssetCheckResult:
    """What is in the store and not kept would be proposed as a partner."""
    found = index_health(settings, ledger, store, vectors)
    text = f"{found.points:,} points, {len(found.orphans):,} without a kept skill, {len(found.missing):,} lacking."
    shown = {"orphans": found.orphans[:SHOWN], "missing": found.missing[:SHOWN]}
    return _result(
        not found.orphans and not found.missing, text, {k: dg.MetadataValue.json(v) for k, v in shown.items()}
    )


@dg.asset_check(asset="skill_index", description="Does every skill stand in one bucket, its own?")
def no_duplicate_id(
    settings: dg.ResourceParam[Settings],
    ledger: dg.ResourceParam[Ledger],
    store: dg.ResourceParam[ArtifactStore],
    vectors: dg.ResourceParam[VectorStore],
) -> dg.AssetCheckResult:
    """Two entries with one id would hide each other."""
    doubles = index_health(settings, ledger, store, vectors).doubles
    shown: dict[str, dg.MetadataValue] = {"ids": dg.MetadataValue.json(doubles[:SHOWN])}
    return _result(not doubles, f"{len(doubles):,} ids stand twice or in a wrong bucket.", shown)


def _result(passed: bool, text: str, shown: dict[str, dg.MetadataValue]) -> dg.AssetCheckResult:  # noqa: FBT001
    return dg.AssetCheckResult(passed=passed, severity=dg.AssetCheckSeverity.WARN, description=text, metadata=shown)


def run_summary(results: Sequence[StageResult]) -> dict[str, dg.MetadataValue]:
    """What the buckets of one run of ``skills`` came to."""
    return counts(survival_of([result.numbers for result in results]))


def counts(found: Survival) -> dict[str, dg.MetadataValue]:
    """Counts, drops by reason, and both as bars."""
    bars = {"kept": found.kept, **dict(sorted(found.dropped.items(), key=lambda item: -item[1]))}
    most = max(1, *bars.values())
    lines = [f"{name:<24} {'█' * round(WIDTH * count / most)} {count:,}" for name, count in bars.items()]
    return {
        "collected": dg.MetadataValue.int(found.collected),
        "passed cleaning": dg.MetadataValue.int(found.passed),
        "kept": dg.MetadataValue.int(found.kept),
        "dropped": dg.MetadataValue.json(found.dropped),
        "plot": dg.MetadataValue.md("\n".join(["```", *lines, "```"])),
    }
