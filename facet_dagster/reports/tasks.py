"""The accepted tasks of a ledger, and their packages."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from facet_dagster.domain.facts import SeedFact
from facet_dagster.domain.outcome import Value, Verdict
from facet_dagster.domain.task import Certificate
from facet_dagster.funnel import Memo, current
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.ports import ArtifactStore, Ledger
from facet_dagster.reports.in_force import task_in_force
from facet_dagster.reports.provenance import licences, shared_alike
from facet_dagster.settings import Settings


class TaskLine(Value):
    """A certified task: key, title, families, checks, repairs, level; ``package`` is the artifact with the tar.

    ``probes`` were tried for its certificate; ``not_as_wanted`` are the ids of those that did not come out as
    wanted: questions to whoever reads the verifier. ``licences`` are those of its two skills.
    """

    key: str
    title: str
    families: tuple[str, ...]
    checks: int
    repairs: int
    level: str
    standin: bool
    package: str
    probes: int = 0
    not_as_wanted: tuple[str, ...] = ()
    licences: tuple[str, ...] = ()
    share_alike: bool = False


def tasks(settings: Settings, ledger: Ledger, store: ArtifactStore, batch: str = "") -> list[TaskLine]:
    """Every certified task, sorted by key."""
    seeds = {fact.key: fact for fact in ledger.find(SeedFact) if batch in ("", fact.batch)}
    graph, memo = seed_stages(settings), Memo()
    known = licences({skill for fact in seeds.values() for skill in (fact.first, fact.second)}, ledger)
    lines = []
    for key, result in sorted(current(graph.certificate, sorted(seeds), ledger, memo).items()):
        if result.verdict is not Verdict.ACCEPTED or result.output is None:
            continue
        certificate = Certificate.model_validate_json(store.get(result.output))
        task = task_in_force(key, graph, ledger, store, memo)
        assert task is not None
        under = tuple(known.get(skill, "") for skill in (seeds[key].first, seeds[key].second))
        lines.append(
            TaskLine(
                key=key,
                title=task.title,
                families=tuple(seeds[key].families),
                checks=len(task.draft.verifier.checks),
                repairs=len(task.repairs),
                level=certificate.level,
                standin=certificate.standin,
                package=certificate.package,
                probes=len(certificate.probes),
                not_as_wanted=tuple(probe.id for probe in certificate.probes if not probe.ok),
                licences=under,
                share_alike=shared_alike(under),
            )
        )
    return lines


def withdrawn(folder: Path, ledger: Ledger, certified: Collection[str]) -> list[Path]:
    """Packages of known seeds below ``folder`` that an earlier export wrote and that are no longer ``certified``."""
    known = {fact.key for fact in ledger.find(SeedFact)} - set(certified)
    return [path.parent for path in sorted(folder.glob("*/task.toml")) if path.parent.name in known]
