"""Whether stage 1 is whole: what survived, what the index holds, by the current results."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from facet_dagster.domain.ids import bucket_keys, bucket_of
from facet_dagster.funnel import current
from facet_dagster.pipeline.graph import skill_stages
from facet_dagster.pipeline.skills import indexed
from facet_dagster.ports import ArtifactStore, Ledger, VectorStore
from facet_dagster.settings import Settings

LEAST_SURVIVAL = 0.75  # before deduplication; of raw public corpora about 0.9 survive
FEW = 100  # skills under which a share says nothing
COPIES = {"dropped/skill.duplicate", "dropped/skill.near_duplicate"}


class Survival(NamedTuple):
    """Skills collected, those that passed cleaning, and those kept; ``dropped`` counts reasons."""

    collected: int
    passed: int
    kept: int
    dropped: dict[str, int]

    @property
    def share(self) -> float:
        """Of the collected skills, how many passed cleaning (0 to 1)."""
        return self.passed / self.collected if self.collected else 1.0

    @property
    def within_bounds(self) -> bool:
        return self.collected < FEW or self.share >= LEAST_SURVIVAL


class IndexHealth(NamedTuple):
    """``orphans`` are in the store and not kept, ``missing`` the other way round; ``doubles`` stand in two buckets
    or in a wrong one."""

    points: int
    orphans: list[str]
    missing: list[str]
    doubles: list[str]


def survival_of(numbers: list[dict[str, float]]) -> Survival:
    """The sum of what buckets counted."""
    total = Counter[str]()
    for one in numbers:
        total.update({name: int(number) for name, number in one.items()})
    dropped = {name: count for name, count in sorted(total.items()) if name.startswith("dropped/")}
    copies = sum(count for name, count in dropped.items() if name in COPIES)
    reasons = {name.partition("/")[2]: count for name, count in dropped.items()}
    return Survival(total["collected"], total["kept"] + copies, total["kept"], reasons)


def survival(settings: Settings, ledger: Ledger) -> Survival:
    """Of the whole corpus."""
    results = current(skill_stages(settings, ledger).skills, bucket_keys(), ledger)
    return survival_of([result.numbers for result in results.values()])


def index_health(settings: Settings, ledger: Ledger, store: ArtifactStore, vectors: VectorStore) -> IndexHealth:
    """The vector store against the results of ``skill_index``, in the buckets that have a current one."""
    wanted, there = indexed(settings, ledger, store), vectors.ids()
    counts = Counter(ident for entries in wanted.values() for ident in entries)
    doubles = {ident for ident, count in counts.items() if count > 1}
    doubles |= {ident for bucket, entries in wanted.items() for ident in entries if bucket_of(ident) != bucket}
    orphans = {ident for ident in there if bucket_of(ident) in wanted} - set(counts)
    return IndexHealth(len(there), sorted(orphans), sorted(set(counts) - there), sorted(doubles))
