"""The accepted tasks of a ledger, and their packages."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from facet_dagster.domain.facts import SeedFact
from facet_dagster.domain.outcome import Value, Verdict
from facet_dagster.domain.task import Certificate
from facet_dagster.funnel import Memo, current
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.pipeline.quarantine import quarantined
from facet_dagster.ports import ArtifactStore, Ledger
from facet_dagster.reports.in_force import task_in_force
from facet_dagster.reports.provenance import licences, shared_alike
from facet_dagster.settings import Settings


class TaskLine(Value):
    """A certified task: key, title, families, checks, repairs, level; ``package`` is the artifact with the tar.

    ``probes`` were tried for its certificate; ``not_as_wanted`` are the ids of those that did not come out as
    wanted: questions to whoever reads the verifier. ``licences`` are those of its two skills. ``quarantined`` says why
    it is in quarantine.
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
    quarantined: str = ""


def tasks(
    settings: Settings, ledger: Ledger, store: ArtifactStore, batch: str = "", *, all_: bool = False
) -> list[TaskLine]:
    """Every certified task that is not in quarantine, sorted by key; with ``all_`` also those in quarantine."""
    seeds = {fact.key: fact for fact in ledger.find(SeedFact) if batch in ("", fact.batch)}
    graph, memo = seed_stages(settings), Memo()
    known = licences({skill for fact in seeds.values() for skill in (fact.first, fact.second)}, ledger)
    apart, lines = quarantined(ledger), []
    for key, result in sorted(current(graph.certificate, sorted(seeds), ledger, memo).items()):
        if result.verdict is not Verdict.ACCEPTED or result.output is None or (key in apart and not all_):
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
                quarantined=apart[key].note if key in apart else "",
            )
        )
    return lines


def left_out(settings: Settings, ledger: Ledger, batch: str = "") -> list[str]:
    """Seeds of the certified tasks that ``tasks`` leaves out, since they are in quarantine."""
    apart = quarantined(ledger)
    keys = sorted(fact.key for fact in ledger.find(SeedFact, key=list(apart)) if batch in ("", fact.batch))
    found = current(seed_stages(settings).certificate, keys, ledger)
    return [key for key in keys if key in found and found[key].verdict is Verdict.ACCEPTED]


def withdrawn(folder: Path, ledger: Ledger, certified: Collection[str]) -> list[Path]:
    """Packages of known seeds in ``folder`` that an earlier export wrote and are not among ``certified``."""
    known = {fact.key for fact in ledger.find(SeedFact)} - set(certified)
    return [path.parent for path in sorted(folder.glob("*/task.toml")) if path.parent.name in known]
