"""Ingesting what changed: a source that is as it was when it was last read to its end is not read again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from facet_dagster.domain.facts import SourceFact
from facet_dagster.domain.ids import digest
from facet_dagster.errors import ConfigError, SourceError
from facet_dagster.pipeline.ingest import Ingested, Opener, Presence, ingest_sources
from facet_dagster.pipeline.readings import policy_parts
from facet_dagster.pipeline.sources import Source
from facet_dagster.ports import ArtifactStore, Ledger
from facet_dagster.stages import curate as curating

Look = Callable[[Source], str]


class Gathered(NamedTuple):
    """``report`` is None when no source had changed, or when the only one failed; ``errors`` are sentences."""

    report: Ingested | None
    unchanged: int
    errors: list[str]


def ingest_changed(
    sources: Sequence[Source],
    *,
    look: Look,
    open_source: Opener,
    ledger: Ledger,
    store: ArtifactStore,
    policy: curating.Policy,
    presence: Presence,
) -> Gathered:
    """Read the sources whose state, as ``look`` tells it, is another than it was. An empty state is always another.

    What fails is told and read again next time. Raises LedgerError.
    """
    before = dict(ledger.values(SourceFact, "source", "state"))
    seen = [(source, _state(source, look, policy)) for source in sources]
    todo = [(source, state) for source, state in seen if not state or before.get(source.name) != state]
    if not todo:
        return Gathered(None, len(sources), [])
    try:
        report = ingest_sources(
            [source for source, _ in todo],
            open_source=open_source,
            ledger=ledger,
            store=store,
            policy=policy,
            presence=presence,
        )
    except (ConfigError, SourceError) as error:  # of a single source
        return Gathered(None, len(sources) - len(todo), [str(error)])
    whole = [
        (source.name, state)
        for (source, state), one in zip(todo, report.sources, strict=True)
        if state and not one.error and not one.problems
    ]
    ledger.append([SourceFact(source=name, round=_round(name, ledger), state=state) for name, state in whole])
    return Gathered(report, len(sources) - len(todo), report.errors)


def _state(source: Source, look: Look, policy: curating.Policy) -> str:
    """With the rules by which its skills are judged: under other ones it is read again."""
    try:
        found = look(source)
    except (ConfigError, SourceError):
        return ""  # reading it says what is wrong
    return digest([found, source.rule, curating.VERSION, policy_parts(policy)]) if found else ""


def _round(name: str, ledger: Ledger) -> int:
    return len(ledger.values(SourceFact, "round", source=name))
