"""Stage 1 and pairing, bound to ports: from ingested SKILL.md files to seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from facet_dagster.domain.facts import (
    CandidateFact,
    EdgeFact,
    Fact,
    SeedFact,
    SkillFact,
)
from facet_dagster.domain.ids import bucket_keys, bucket_of
from facet_dagster.domain.outcome import Reason, Verdict, reject
from facet_dagster.domain.seed import (
    BucketCandidates,
    BucketHypotheses,
    Candidate,
    HypothesisReply,
    JudgedCandidate,
    SkillHypotheses,
)
from facet_dagster.domain.skill import BucketIndex, BucketSkills, Curated, IndexEntry, Skill
from facet_dagster.errors import ConfigError, MalformedReply
from facet_dagster.funnel import Compute, Outcome, Stage, current
from facet_dagster.pipeline import corpus as corpora
from facet_dagster.pipeline.graph import skill_stages
from facet_dagster.pipeline.ingest import ingest_collected
from facet_dagster.ports import LLM, ArtifactStore, Embedder, Ledger, VectorStore
from facet_dagster.settings import Settings
from facet_dagster.stages import collect as collecting
from facet_dagster.stages import curate as curating
from facet_dagster.stages import extract as extracting
from facet_dagster.stages import hypothesise as hypothesising
from facet_dagster.stages import index as indexing
from facet_dagster.stages import pair as pairing
from facet_dagster.stages import retrieve as retrieving


def ingest(path: Path, *, ledger: Ledger, store: ArtifactStore) -> int:
    """Store every SKILL.md of ``path`` (a folder, or a table) and return how many are new.

    Raises ConfigError for a path that is neither.
    """
    return ingest_collected(collecting.collect(path), ledger=ledger, store=store)


def skills(settings: Settings, *, ledger: Ledger, store: ArtifactStore, embedder: Embedder) -> Compute:
    """Bucket -> BucketSkills. Decides about the whole corpus first where anything in it changed."""
    corpora.decide(settings, ledger=ledger, store=store, embedder=embedder)
    version = skill_stages(settings, ledger).skills.version
    readings, shares = corpora.readings_of(settings), corpora.shares_of(corpora.skill_ids(ledger))

    def compute(bucket: str) -> Outcome:
        ids = shares[bucket]
        corpora.bring(readings, {bucket: ids}, ledger=ledger, store=store)
        decided = corpora.decisions(bucket, ledger, store)
        items = curating.conclude(readings.of(bucket, ids), decided, embedder=embedder)
        return Outcome(
            value=BucketSkills(items=tuple(items)),
            numbers=_bucket_numbers(items),
            facts=tuple(_skill_fact(item, version) for item in items),
        )

    return compute


def _bucket_numbers(items: Sequence[Curated]) -> dict[str, float]:
    """Counts of one bucket, and of each reason for which something in it was dropped."""
    dropped = Counter(f"dropped/{item.rejection.reason}" for item in items if item.rejection)
    kept = len(items) - dropped.total()
    alike = sum(item.alike is not None for item in items)
    return {"collected": len(items), "kept": kept, "dropped": dropped.total(), "alike": alike, **dropped}


def _skill_fact(item: Curated, version: str) -> SkillFact:
    skill, rejection = item.skill, item.rejection
    return SkillFact(
        skill=item.id,
        version=version,
        bucket=bucket_of(item.id),
        name=skill.name if skill else "",
        family=skill.family if skill else "",
        licence=skill.licence.spdx if skill else "",
        origin=item.origin,
        verdict=Verdict.ACCEPTED if skill else Verdict.REJECTED,
        reason=rejection.reason if rejection else "",
        message=rejection.message if rejection else "",
        duplicate_of=item.duplicate_of,
    )


def curated(settings: Settings, ledger: Ledger, store: ArtifactStore) -> list[Curated]:
    """The current outcome of stage 1 for the whole corpus."""
    results = current(skill_stages(settings, ledger).skills, bucket_keys(), ledger)
    outputs = [result.output for _, result in sorted(results.items()) if result.output]
    return [item for sha in outputs for item in BucketSkills.model_validate_json(store.get(sha)).items]


class Kept(Mapping[str, Skill]):
    """Skills that survived, by id. A bucket is read when one of its skills is asked for."""

    def __init__(self, outputs: Mapping[str, str], store: ArtifactStore) -> None:
        self._outputs, self._store = outputs, store
        self._buckets: dict[str, dict[str, Skill]] = {}

    def bucket(self, bucket: str) -> Mapping[str, Skill]:
        if bucket not in self._buckets:
            sha = self._outputs.get(bucket)
            items = BucketSkills.model_validate_json(self._store.get(sha)).items if sha else ()
            self._buckets[bucket] = {item.id: item.skill for item in items if item.skill is not None}
        return self._buckets[bucket]

    def __getitem__(self, ident: str) -> Skill:
        return self.bucket(bucket_of(ident))[ident]

    def __iter__(self) -> Iterator[str]:
        return (ident for bucket in sorted(self._outputs) for ident in self.bucket(bucket))

    def __len__(self) -> int:
        return sum(len(self.bucket(bucket)) for bucket in self._outputs)


def kept_skills(settings: Settings, ledger: Ledger, store: ArtifactStore) -> Kept:
    """Skills that survived, by id."""
    results = current(skill_stages(settings, ledger).skills, bucket_keys(), ledger)
    return Kept({bucket: result.output for bucket, result in results.items() if result.output}, store)


def skill_index(
    settings: Settings, *, ledger: Ledger, store: ArtifactStore, embedder: Embedder, vectors: VectorStore
) -> Compute:
    """Bucket -> BucketIndex: its skills are in the vector store, and nothing else of it is."""
    kept = kept_skills(settings, ledger, store)
    mend_index(settings, ledger=ledger, store=store, embedder=embedder, vectors=vectors)
    there = corpora.shares_of(vectors.ids())

    def compute(bucket: str) -> Outcome:
        entries = indexing.entries(kept.bucket(bucket).values())
        gone = set(there[bucket]) - {entry.id for entry in entries}
        vectors.delete(sorted(gone))
        count = indexing.index(entries, embedder=embedder, vectors=vectors)
        return Outcome(BucketIndex(entries=tuple(entries)), numbers={"indexed": count, "removed": len(gone)})

    return compute


def indexed(settings: Settings, ledger: Ledger, store: ArtifactStore) -> dict[str, dict[str, IndexEntry]]:
    """Bucket -> what the vector store should hold of it, by id, where ``skill_index`` has a current result."""
    results = current(skill_stages(settings, ledger).skill_index, bucket_keys(), ledger)
    outputs = {bucket: result.output for bucket, result in sorted(results.items()) if result.output}
    values = {bucket: BucketIndex.model_validate_json(store.get(sha)) for bucket, sha in outputs.items()}
    return {bucket: {entry.id: entry for entry in value.entries} for bucket, value in values.items()}


def mend_index(
    settings: Settings, *, ledger: Ledger, store: ArtifactStore, embedder: Embedder, vectors: VectorStore
) -> int:
    """Make the vector store what ``skill_index`` says, from the cached vectors; gives how many were put back.

    Raises VectorStoreError.
    """
    wanted, there = indexed(settings, ledger, store), vectors.ids()
    vectors.delete(sorted(i for i in there if (b := bucket_of(i)) in wanted and i not in wanted[b]))
    lost = [entry for entries in wanted.values() for ident, entry in entries.items() if ident not in there]
    return indexing.index(lost, embedder=embedder, vectors=vectors)


def _by_bucket(items: Iterable[Skill]) -> dict[str, list[Skill]]:
    buckets: dict[str, list[Skill]] = {}
    for skill in items:
        buckets.setdefault(bucket_of(skill.id), []).append(skill)
    return buckets


def scenario_hypotheses(settings: Settings, *, ledger: Ledger, store: ArtifactStore, llm: LLM) -> Compute:
    """Bucket -> BucketHypotheses. A skill whose reply stays malformed is listed, and does not stop others.

    With FACET_HYPOTHESES=extract no model is asked.
    """
    kept = kept_skills(settings, ledger, store)

    def compute(bucket: str) -> Outcome:
        items, refused, facts = list[SkillHypotheses](), dict[str, str](), list[Fact]()
        for skill in kept.bucket(bucket).values():
            try:
                extracted = settings.hypotheses == "extract"
                outcome = extracting.extract(skill) if extracted else hypothesising.hypothesise(skill, llm=llm)
            except MalformedReply as error:
                refused[skill.id] = str(error)
                continue
            facts += outcome.facts
            assert isinstance(outcome.value, SkillHypotheses)
            items.append(outcome.value)
        numbers = {"skills": len(items), "hypotheses": sum(len(i.reply.hypotheses) for i in items)}
        return Outcome(BucketHypotheses(items=tuple(items), refused=refused), numbers=numbers, facts=tuple(facts))

    return compute


def _replies(stage: Stage, ledger: Ledger, store: ArtifactStore) -> dict[str, HypothesisReply]:
    results = current(stage, bucket_keys(), ledger)
    outputs = [result.output for _, result in sorted(results.items()) if result.output]
    buckets = [BucketHypotheses.model_validate_json(store.get(sha)) for sha in outputs]
    return {item.skill_id: item.reply for bucket in buckets for item in bucket.items}


def seed_candidates(
    settings: Settings,
    *,
    ledger: Ledger,
    store: ArtifactStore,
    llm: LLM,
    embedder: Embedder,
    vectors: VectorStore,
) -> Compute:
    """Bucket -> BucketCandidates: each skill's nearest partners, judged."""
    graph = skill_stages(settings, ledger)
    kept = kept_skills(settings, ledger, store)
    replies = _replies(graph.scenario_hypotheses, ledger, store)
    able = {ident: skill for ident, skill in kept.items() if ident in replies}
    mend_index(settings, ledger=ledger, store=store, embedder=embedder, vectors=vectors)
    buckets = _by_bucket(able.values())
    propose = _proposer(settings, able, replies, vectors=vectors, embedder=embedder, llm=llm)

    def compute(bucket: str) -> Outcome:
        judged = list[JudgedCandidate]()
        for skill in buckets.get(bucket, []):
            for candidate in propose(skill):
                if all(ident in able for ident in candidate.skills):
                    judged.append(_judge(candidate.skills, candidate, able, replies, llm))
        accepted = sum(item.rejection is None for item in judged)
        return Outcome(
            BucketCandidates(items=tuple(judged)),
            numbers={"candidates": len(judged), "accepted": accepted},
            facts=tuple(candidate_facts(judged, graph.seed_candidates.version)),
        )

    return compute


def _proposer(
    settings: Settings,
    able: dict[str, Skill],
    replies: dict[str, HypothesisReply],
    *,
    vectors: VectorStore,
    embedder: Embedder,
    llm: LLM,
) -> Callable[[Skill], list[Candidate]]:
    """Skill -> its candidate pairs, as FACET_CANDIDATES says."""
    limit = settings.neighbours
    if settings.candidates == "skill":
        return lambda skill: pairing.propose(skill, vectors=vectors, embedder=embedder, llm=llm, limit=limit)
    lexicon = retrieving.Lexicon.of([able[ident] for ident in sorted(able)])

    def propose(skill: Skill) -> list[Candidate]:
        texts = [f"{scenario.title}. {scenario.situation}" for scenario in replies[skill.id].hypotheses]

        def rank() -> list[str]:
            return retrieving.partners(
                skill, texts, able, vectors=vectors, embedder=embedder, lexicon=lexicon, limit=limit
            )

        return pairing.pinned("complements", skill.id, rank, llm=llm)

    return propose


def _judge(
    pair: tuple[str, str],
    candidate: Candidate,
    able: dict[str, Skill],
    replies: dict[str, HypothesisReply],
    llm: LLM,
) -> JudgedCandidate:
    first, second = pair
    try:
        return pairing.judge(candidate, able[first], able[second], (replies[first], replies[second]), llm=llm)
    except MalformedReply as error:
        return JudgedCandidate(candidate=candidate, rejection=reject(Reason.LLM_MALFORMED, str(error)))


def candidate_facts(judged: Sequence[JudgedCandidate], version: str) -> Iterable[Fact]:
    for item in judged:
        first, second = item.candidate.skills
        yield CandidateFact(
            candidate=item.candidate.id,
            version=version,
            first=first,
            second=second,
            anchor=item.candidate.anchor,
            score=item.candidate.score,
            verdict=Verdict.REJECTED if item.rejection else Verdict.ACCEPTED,
            reason=item.rejection.reason if item.rejection else "",
            message=item.rejection.message if item.rejection else (item.reply.reason if item.reply else ""),
        )
        yield EdgeFact(child=item.candidate.id, parent=first, kind="skill")
        yield EdgeFact(child=item.candidate.id, parent=second, kind="skill")


def judged_candidates(settings: Settings, ledger: Ledger, store: ArtifactStore) -> list[JudgedCandidate]:
    """All current judgements, one a pair, sorted by pair id."""
    results = current(skill_stages(settings, ledger).seed_candidates, bucket_keys(), ledger)
    outputs = [result.output for _, result in sorted(results.items()) if result.output]
    buckets = [BucketCandidates.model_validate_json(store.get(sha)) for sha in outputs]
    pairs = {item.candidate.id: item for bucket in reversed(buckets) for item in reversed(bucket.items)}
    return [pairs[ident] for ident in sorted(pairs)]


def batch_keys(ledger: Ledger, batch: str, *, may_be_empty: bool = False) -> list[str]:
    """Seed keys of a batch, sorted. Raises ConfigError when there is none, unless it ``may_be_empty``."""
    keys = sorted(fact.key for fact in ledger.find(SeedFact, batch=batch))
    if not keys and not may_be_empty:
        raise ConfigError(f"Batch {batch} holds no seed: materialize seed_selection for it first")
    return keys
