"""Whether the funnel's counts can be true: they add up, nothing hangs in the air, and shares are as expected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from facet_dagster.domain.facts import CandidateFact, RawSkillFact, SeedFact, StageFact
from facet_dagster.domain.outcome import StageResult, Verdict
from facet_dagster.funnel import Memo, current
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.ports import ArtifactStore, Ledger
from facet_dagster.reports.funnel import Funnel
from facet_dagster.reports.statistics import rate
from facet_dagster.settings import Settings

# Least and most share of a row; the paper's own (Table 5) are 0.957, 0.384 and 0.816.
BANDS: Mapping[str, tuple[float, float]] = {
    "environments": (0.75, 1.0),
    "first_pass_valid": (0.15, 0.9),
    "validated": (0.5, 1.0),
}


def wrong_sums(settings: Settings, ledger: Ledger) -> list[str]:
    """One sentence for each stage whose seeds are not all accounted for by the stage above."""
    keys = sorted(fact.key for fact in ledger.find(SeedFact))
    memo, above, problems = Memo(), dict[str, StageResult](), list[str]()
    for stage in seed_stages(settings):
        found = current(stage, keys, ledger, memo)
        counts = Counter(result.verdict for result in found.values())
        waiting = len(keys) - len(found)
        if sum(counts.values()) + waiting != len(keys):
            problems.append(f"{stage.name}: {dict(counts)} and {waiting} that wait are not {len(keys)} seeds.")
        stopped = {key for key, result in above.items() if result.verdict is not Verdict.ACCEPTED}
        passed = {key for key, result in found.items() if result.verdict is not Verdict.NOT_REACHED}
        if leaked := sorted(stopped & passed):
            problems.append(f"{stage.name}: {len(leaked)} seeds were stopped above it, such as {leaked[0]}.")
        above = found
    return problems


def orphans(settings: Settings, ledger: Ledger, store: ArtifactStore, partitions: Collection[str]) -> list[str]:
    """One sentence for each thing that hangs in the air; ``partitions`` are the seeds that Dagster knows."""
    seeds = {fact.key: fact for fact in ledger.find(SeedFact)}
    skills = {row[0] for row in ledger.values(RawSkillFact, "skill")}
    pairs = {row[0] for row in ledger.values(CandidateFact, "candidate")}
    results = {row[0] for row in ledger.values(StageFact, "key", stage=[s.name for s in seed_stages(settings)])}
    final = current(seed_stages(settings).certificate, sorted(seeds), ledger)
    return [
        *(f"Partition {key} is no seed: delete it." for key in sorted(set(partitions) - set(seeds))),
        *(f"Seed {key} is no partition: run its selection again." for key in sorted(set(seeds) - set(partitions))),
        *(f"Results of {key} stand without its seed." for key in sorted(results - set(seeds))),
        *(
            f"Seed {k} has a skill that was never collected."
            for k, s in seeds.items()
            if not {s.first, s.second} <= skills
        ),
        *(f"Seed {key} comes from no candidate." for key, seed in seeds.items() if seed.candidate not in pairs),
        *(
            f"The certificate of {key} is not in the artifact store: run `certificate` for it again."
            for key, result in final.items()
            if result.output and not store.has(result.output)
        ),
    ]


def out_of_band(report: Funnel) -> list[str]:
    """Rows whose share is certainly (95 %, Wilson) below or above what is expected."""
    found = []
    for row in report.rows:
        low, high = BANDS.get(row.name, (0.0, 1.0))
        share = rate(row.count, report.count(row.of)) if row.of else None
        if share is None or share.low is None or share.high is None or share.rate is None:
            continue
        if share.high < low or share.low > high:
            found.append(f"{row.label}: {share.rate:.1%} of {row.of}; {low:.0%} to {high:.0%} are expected.")
    return found
