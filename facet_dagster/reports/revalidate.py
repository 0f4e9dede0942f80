"""Certificates of accepted tasks run again, without a model: which verdicts changed since."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from facet_dagster.domain.archive import ArchiveError, unpack
from facet_dagster.domain.facts import AttemptFact
from facet_dagster.domain.ids import to_json
from facet_dagster.domain.outcome import Value
from facet_dagster.domain.task import Level
from facet_dagster.errors import ConfigError, PortError
from facet_dagster.ports import ArtifactStore, Ledger, Sandbox
from facet_dagster.reports.tasks import TaskLine
from facet_dagster.stages.task.certificate.again import Again, run_again
from facet_dagster.stages.task.package import Package

STAGE, KIND = "revalidate", "certificate"


class Revalidated(Value):
    """One task. ``again`` is None where it could not be run: ``trouble`` says why, which is no verdict."""

    key: str
    title: str
    again: Again | None
    trouble: str = ""

    @property
    def rotten(self) -> bool:
        """Whether it would not be certified now."""
        return self.again is not None and self.again.rejection is not None


def package_of(tar: bytes) -> Package:
    """Raises ArchiveError for anything but an archive."""
    members = {path: member for path, member in unpack(tar).items() if member.type == "file"}
    executable = frozenset(path for path, member in members.items() if member.mode & 0o111)
    return Package({path: member.data for path, member in members.items()}, executable)


def revalidate(
    lines: list[TaskLine], *, ledger: Ledger, store: ArtifactStore, sandbox: Sandbox, level: Level, workers: int
) -> Iterator[Revalidated]:
    """Run every certificate again, ``workers`` at once; each one that ran is a row of the ledger."""
    one = partial(_one, ledger=ledger, store=store, sandbox=sandbox, level=level)
    with ThreadPoolExecutor(max_workers=workers) as pool:
        yield from pool.map(one, lines)


def _one(line: TaskLine, *, ledger: Ledger, store: ArtifactStore, sandbox: Sandbox, level: Level) -> Revalidated:
    try:
        again = run_again(package_of(store.get(line.package)), sandbox=sandbox, level=level)
    except (PortError, ConfigError, ArchiveError) as error:
        return Revalidated(key=line.key, title=line.title, again=None, trouble=str(error))
    ledger.append([_fact(line.key, again, ledger, store)])
    return Revalidated(key=line.key, title=line.title, again=again)


def _fact(key: str, again: Again, ledger: Ledger, store: ArtifactStore) -> AttemptFact:
    """Rounds count from 0, so that equal runs are rows of their own."""
    ran = sum(probe.ok for probe in again.probes)
    summary = f"{again.level}: {ran} of {len(again.probes)} probes as wanted. {' '.join(again.differences)}"
    return AttemptFact(
        stage=STAGE,
        key=key,
        kind=KIND,
        round=len(ledger.find(AttemptFact, stage=STAGE, key=key)),
        ok=again.rejection is None,
        component=again.rejection.component if again.rejection else "",
        summary=summary[:1000],
        artifact=store.put(to_json(again).encode()),
    )
