"""Nights as the ledger knows them: which began, how they ended, and what is still to be carried on."""

from __future__ import annotations

from facet_dagster.domain.facts import ArtifactFact, NightFact, SeedFact
from facet_dagster.domain.ids import to_json
from facet_dagster.domain.outcome import Value
from facet_dagster.ports import ArtifactStore, Ledger
from facet_dagster.reports.health import Health
from facet_dagster.reports.releases import Release
from facet_dagster.reports.yields import Yields

BEGUN, DONE, BUDGET, TROUBLE, STOPPED = "begun", "done", "budget", "trouble", "stopped"
CARRIED = 7  # nights after which what failed again and again is left to a person


class StageRun(Value):
    """One stage of a night: partitions settled, how many of them were read back or rejected, and what failed."""

    stage: str
    settled: int
    cached: int
    rejected: int
    error: str = ""


class NightReport(Value):
    """``state`` is done, budget (used up), trouble or stopped; ``said`` are sentences about what went wrong.

    ``carried`` are earlier nights whose seeds were carried on. ``sources`` counts sources by what became of them,
    ``new_skills`` what they gave. ``minted`` seeds are new. ``spent`` is USD, ``seconds`` the whole night.
    """

    night: str
    state: str
    said: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()
    sources: dict[str, int] = {}
    new_skills: int = 0
    minted: int = 0
    stages: tuple[StageRun, ...] = ()
    yields: Yields | None = None
    health: Health | None = None
    release: Release | None = None
    spent: float = 0.0
    seconds: float = 0.0

    @property
    def computed(self) -> int:
        """Partitions that were computed, over all stages."""
        return sum(stage.settled - stage.cached for stage in self.stages)


def nights(ledger: Ledger) -> dict[str, str]:
    """Night -> its last state, in the order in which they began."""
    found = dict[str, str]()
    for night, state in ledger.values(NightFact, "night", "state"):
        found[night] = state
    return found


def unfinished(ledger: Ledger, night: str) -> list[str]:
    """Of the last nights those before ``night`` that are not done, oldest first."""
    known = [name for name in nights(ledger) if name != night][-CARRIED:]
    return [name for name in known if nights(ledger)[name] != DONE]


def seeds_of(ledger: Ledger, batches: list[str]) -> list[str]:
    """Keys, sorted."""
    return sorted(fact.key for fact in ledger.find(SeedFact, batch=batches)) if batches else []


def note(ledger: Ledger, night: str, state: str, said: str = "", release: str = "", report: str | None = None) -> None:
    """Append what became of a night."""
    known = len(ledger.values(NightFact, "round", night=night))
    ledger.append([NightFact(night=night, round=known, state=state, said=said[:2000], release=release, report=report)])


def end(report: NightReport, ledger: Ledger, store: ArtifactStore) -> None:
    """Keep the report. Nights that were carried on are done with this one."""
    data = to_json(report).encode()
    sha = store.put(data)
    ledger.append([ArtifactFact(sha256=sha, kind="night", size=len(data))])
    name = report.release.name if report.release else ""
    note(ledger, report.night, report.state, " ".join(report.said), name, sha)
    if report.state == DONE:
        for night in report.carried:
            note(ledger, night, DONE, f"Carried on by {report.night}.", name)


def last_report(ledger: Ledger, store: ArtifactStore, night: str = "") -> NightReport | None:
    """Of ``night``, or of the last one that ended; None when its last word is that it began."""
    facts = ledger.find(NightFact, night=night) if night else [f for f in ledger.find(NightFact) if f.report]
    if not facts or facts[-1].report is None:
        return None
    return NightReport.model_validate_json(store.get(facts[-1].report))
