"""Stage 1 and pairing, bound to ports: from ingested SKILL.md files to seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

from facet_dagster.domain.facts import (
    ArtifactFact,
    CandidateFact,
    EdgeFact,
    Fact,
    RawSkillFact,
    SeedFact,
    SkillFact,
)
from facet_dagster.domain.ids import bucket_keys, bucket_of
from facet_dagster.domain.outcome import Reason, Verdict, reject
from facet_dagster.domain.scenario import (
    BucketCandidates,
    BucketHypotheses,
    Candidate,
    HypothesisReply,
    JudgedCandidate,
    SkillHypotheses,
)
from facet_dagster.domain.skill import BucketSkills, Curated, RawSkill, Skill
from facet_dagster.errors import ConfigError, MalformedReply
from facet_dagster.funnel import Compute, Outcome, Stage, current
from facet_dagster.pipeline.graph import skill_stages
from facet_dagster.ports import LLM, ArtifactStore, Embedder, Ledger, VectorStore
from facet_dagster.settings import Settings
from facet_dagster.stages import collect as collecting
from facet_dagster.stages import curate as curating
from facet_dagster.stages import extract as extracting
from facet_dagster.stages import hypothesise as hypothesising
from facet_dagster.stages import index as indexing
from facet_dagster.stages import pair as pairing
from facet_dagster.stages import retrieve as retrieving

INGEST_BATCH = 500


def ingest(path: Path, *, ledger: Ledger, store: ArtifactStore) -> int:
    """Store every SKILL.md below ``path`` (a folder or a parquet export) and return how many are new.

    Raises ConfigError for a path that is neither.
    """
    known = {fact.skill for fact in ledger.find(RawSkillFact)}
    new, pending = 0, list[Fact]()
    for raw, data in collecting.collect(path):
        if raw.id in known:
            continue
        known.add(raw.id)
        new += 1
        sha = store.put(data)
        pending.append(ArtifactFact(sha256=sha, kind="skill.text", size=len(data)))
        pending.append(RawSkillFact(skill=raw.id, bucket=bucket_of(raw.id), value=raw.model_dump(mode="json")))
        pending.append(EdgeFact(child=raw.id, parent=f"{raw.source}:{raw.origin}", kind="source"))
        if len(pending) >= INGEST_BATCH:
            ledger.append(pending)
            pending.clear()
    ledger.append(pending)
    return new


def raw_skills(ledger: Ledger, store: ArtifactStore) -> list[tuple[RawSkill, bytes]]:
    """Everything ingested, sorted by id."""
    raws = [RawSkill.model_validate(fact.value) for fact in ledger.find(RawSkillFact)]
    return [(raw, store.get(raw.text)) for raw in sorted(raws, key=lambda raw: raw.id)]


def skills(settings: Settings, *, ledger: Ledger, store: ArtifactStore, embedder: Embedder) -> Compute:
    """Bucket -> BucketSkills. The whole corpus is curated once a process; a bucket takes its share."""
    version = skill_stages(settings, ledger).skills.version

    @cache
    def corpus() -> dict[str, list[Curated]]:
        shares: dict[str, list[Curated]] = {bucket: [] for bucket in bucket_keys()}
        for item in curating.curate(raw_skills(ledger, store), embedder=embedder):
            shares[bucket_of(item.id)].append(item)
        return shares

    def compute(bucket: str) -> Outcome:
        items = corpus()[bucket]
        kept = sum(item.skill is not None for item in items)
        return Outcome(
            value=BucketSkills(items=tuple(items)),
            numbers={"collected": len(items), "kept": kept, "dropped": len(items) - kept},
            facts=tuple(_skill_fact(item, version) for item in items),
        )

    corpus()  # outside the worker threads, so that it is computed once
    return compute


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


def kept_skills(settings: Settings, ledger: Ledger, store: ArtifactStore) -> dict[str, Skill]:
    """Skills that survived, by id."""
    return {item.id: item.skill for item in curated(settings, ledger, store) if item.skill is not None}


def skill_index(
    settings: Settings, *, ledger: Ledger, store: ArtifactStore, embedder: Embedder, vectors: VectorStore
) -> Compute:
    """Bucket -> count of indexed skills."""
    kept = _by_bucket(kept_skills(settings, ledger, store).values())

    def compute(bucket: str) -> Outcome:
        count = indexing.index(kept.get(bucket, []), embedder=embedder, vectors=vectors)
        return Outcome(numbers={"indexed": count})

    return compute


def _by_bucket(items: Iterable[Skill]) -> dict[str, list[Skill]]:
    buckets: dict[str, list[Skill]] = {}
    for skill in items:
        buckets.setdefault(bucket_of(skill.id), []).append(skill)
    return buckets


def scenario_hypotheses(settings: Settings, *, ledger: Ledger, store: ArtifactStore, llm: LLM) -> Compute:
    """Bucket -> BucketHypotheses. A skill whose reply stays malformed is listed, and does not stop others.

    With FACET_HYPOTHESES=extract no model is asked.
    """
    kept = _by_bucket(kept_skills(settings, ledger, store).values())

    def compute(bucket: str) -> Outcome:
        items, refused, facts = list[SkillHypotheses](), dict[str, str](), list[Fact]()
        for skill in kept.get(bucket, []):
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
    lost = [skill for ident, skill in sorted(able.items()) if ident not in vectors.ids()]
    indexing.index(lost, embedder=embedder, vectors=vectors)
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
            facts=tuple(_candidate_facts(judged, graph.seed_candidates.version)),
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


def _candidate_facts(judged: Sequence[JudgedCandidate], version: str) -> Iterable[Fact]:
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


def batch_keys(ledger: Ledger, batch: str) -> list[str]:
    """Seed keys of a batch, sorted. Raises ConfigError when there is none."""
    keys = sorted(fact.key for fact in ledger.find(SeedFact, batch=batch))
    if not keys:
        raise ConfigError(f"Batch {batch} holds no seed: materialize seed_selection for it first")
    return keys
