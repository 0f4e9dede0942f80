"""Collecting, bound to ports: every SKILL.md of some sources is masked, stored, and judged by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

from facet_dagster.domain.facts import ArtifactFact, EdgeFact, Fact, RawSkillFact
from facet_dagster.domain.ids import bucket_of
from facet_dagster.domain.outcome import Value
from facet_dagster.domain.skill import RawSkill, Skill
from facet_dagster.errors import ConfigError, FacetError, SourceError
from facet_dagster.pipeline.sources import Source
from facet_dagster.ports import ArtifactStore, Ledger
from facet_dagster.stages import curate as curating
from facet_dagster.stages.collect import Collected, Unread

BATCH = 250
BATCH_BYTES = 32 * 2**20
WRITERS = 8  # each waits for the disk
MOST_PROBLEMS = 20
LISTED = "listed"
KEPT, KNOWN, NOT_READ = "kept", "known", "not_read"

Presence = Callable[[Sequence[str], bool], int]
Opener = Callable[[Source, Unread], AbstractContextManager[Iterable[Collected]]]


class SourceReport(Value):
    """What one source gave. ``rows`` is the sum of ``outcomes``: kept, a reason, known before, or not read.

    ``problems`` are files that could not be read, at most 20; ``error`` says why the source could not be read to its
    end. ``licences`` and ``notes`` count what is kept: what it is under, and what reading it had to tolerate.
    ``gone`` counts skills that the source held before and that were taken out of the corpus now.
    """

    source: str
    commit: str = ""
    rows: int = 0
    outcomes: dict[str, int] = {}
    notes: dict[str, int] = {}
    licences: dict[str, int] = {}
    gone: int = 0
    problems: tuple[str, ...] = ()
    error: str = ""


class Ingested(Value):
    """All sources together: ``rows`` seen now, ``new`` ones stored, ``total`` in the corpus.

    Duplicates are found later, among all that is kept (asset ``skills``).
    """

    rows: int
    new: int
    total: int
    outcomes: dict[str, int]
    notes: dict[str, int]
    licences: dict[str, int]
    sources: tuple[SourceReport, ...]

    @property
    def errors(self) -> list[str]:
        return [report.error for report in self.sources if report.error]


def ingest_sources(
    sources: Sequence[Source],
    *,
    open_source: Opener,
    ledger: Ledger,
    store: ArtifactStore,
    policy: curating.Policy,
    presence: Presence = lambda ids, there: 0,  # noqa: ARG005
) -> Ingested:
    """Store what is new in ``sources``, one ingest at a time over all processes of the ledger.

    A source that fails is reported and the next one is read; what was read of it is kept, so that a second run
    continues. A single source that gives nothing raises its ConfigError or SourceError. Raises LedgerError.

    ``presence`` is told which skills a source that was read to its end holds (True), and which it held before and no
    source holds any more (False); it gives how many that changed. A SKILL.md that was edited is another skill.
    """
    with ledger.claim("ingest"):
        corpus = _Corpus(ledger, store, policy)
        reports = [_report(source, open_source, corpus, presence, alone=len(sources) == 1) for source in sources]
        return _sum(reports, corpus)


def ingest_collected(collected: Iterable[Collected], *, ledger: Ledger, store: ArtifactStore) -> int:
    """Store what is new and return how many that are."""
    with ledger.claim("ingest"):
        corpus = _Corpus(ledger, store, curating.DEFAULT)
        corpus.take(collected, _Count(), "")
        return corpus.new


class _Count:
    """The counts of one source, as they grow."""

    def __init__(self) -> None:
        self.outcomes, self.notes, self.licences = Counter[str](), Counter[str](), Counter[str]()
        self.problems: list[str] = []
        self.commits = set[str]()
        self.seen = set[str]()

    def unread(self, place: str, why: str) -> None:
        self.outcomes[NOT_READ] += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(f"{place}: {why}")


class _Corpus:
    """The ledger's raw skills while more are added."""

    def __init__(self, ledger: Ledger, store: ArtifactStore, policy: curating.Policy) -> None:
        self._ledger, self._store, self._policy = ledger, store, policy
        self.known = {fact.skill for fact in ledger.find(RawSkillFact)}
        self.new = 0

    def take(self, collected: Iterable[Collected], count: _Count, source: str) -> None:
        """Store and count; also when ``collected`` fails midway, what it gave is stored."""
        waiting, edges, size = list[Collected](), list[Fact](), 0
        listed = self._listed(source)
        try:
            for raw, data in collected:
                count.commits.add(raw.commit)
                count.seen.add(raw.id)
                if source and raw.id not in listed:
                    listed.add(raw.id)
                    edges.append(EdgeFact(child=raw.id, parent=source, kind=LISTED))
                if raw.id in self.known:
                    count.outcomes[KNOWN] += 1
                else:
                    self.known.add(raw.id)
                    waiting.append(self._judged(raw, data, count))
                    size += len(data)
                if max(len(waiting), len(edges)) >= BATCH or size > BATCH_BYTES:
                    self._store_all(waiting, edges)
                    waiting, edges, size = [], [], 0
        finally:
            self._store_all(waiting, edges)

    def gone(self, seen: set[str], source: str) -> list[str]:
        """Skills that ``source`` held before, that are not ``seen`` there now, and that no other source held."""
        lacking = sorted(self._listed(source) - seen)
        edges = self._ledger.find(EdgeFact, child=lacking) if lacking else []
        elsewhere = {edge.child for edge in edges if edge.kind == LISTED and edge.parent != source}
        return [ident for ident in lacking if ident not in elsewhere]

    def _listed(self, source: str) -> set[str]:
        """Skills that the source holds or held, as far as the ledger knows."""
        return {edge.child for edge in self._ledger.find(EdgeFact, parent=source)} if source else set()

    def _judged(self, raw: RawSkill, data: bytes, count: _Count) -> Collected:
        raw, data, found = curating.take(raw, data, self._policy)
        count.outcomes[KEPT if isinstance(found, Skill) else str(found.reason)] += 1
        if isinstance(found, Skill):
            count.notes.update(found.notes)
            count.licences[found.licence.spdx] += 1
        return raw, data

    def _store_all(self, items: Sequence[Collected], edges: Sequence[Fact]) -> None:
        """Blobs first: a killed process leaves no skill without its text."""
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(self._store.put, [data for _, data in items]))
        facts = list[Fact]()
        for raw, data in items:
            facts.append(ArtifactFact(sha256=raw.text, kind="skill.text", size=len(data)))
            facts.append(RawSkillFact(skill=raw.id, bucket=bucket_of(raw.id), value=raw.model_dump(mode="json")))
            facts.append(EdgeFact(child=raw.id, parent=f"{raw.source}:{raw.origin}", kind="source"))
        self._ledger.append([*facts, *edges])
        self.new += len(items)


def _report(source: Source, open_source: Opener, corpus: _Corpus, presence: Presence, *, alone: bool) -> SourceReport:
    count, error, gone = _Count(), "", 0
    try:
        with open_source(source, count.unread) as collected:
            corpus.take(collected, count, source.name)
        if not count.problems:
            presence(sorted(count.seen), True)
            gone = presence(corpus.gone(count.seen, source.name), False)
    except (ConfigError, SourceError) as failed:
        if alone and not count.outcomes:
            raise
        error = _sentence(failed)
    return SourceReport(
        source=source.label,
        commit=min(count.commits) if len(count.commits) == 1 else "",
        rows=count.outcomes.total(),
        outcomes=_sorted(count.outcomes),
        notes=_sorted(count.notes),
        licences=_sorted(count.licences),
        gone=gone,
        problems=tuple(count.problems),
        error=error,
    )


def _sentence(error: FacetError) -> str:
    return " ".join(str(error).split())[:500]


def _sum(reports: Sequence[SourceReport], corpus: _Corpus) -> Ingested:
    outcomes, notes, licences = (
        sum((Counter(getattr(report, name)) for report in reports), Counter[str]())
        for name in ("outcomes", "notes", "licences")
    )
    return Ingested(
        rows=outcomes.total(),
        new=corpus.new,
        total=len(corpus.known),
        outcomes=_sorted(outcomes),
        notes=_sorted(notes),
        licences=_sorted(licences),
        sources=tuple(reports),
    )


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items()))
