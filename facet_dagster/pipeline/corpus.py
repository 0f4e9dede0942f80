"""Which skills there are, and what deduplication over all of them decided: brought up to date, bucket by bucket.

What one bucket's results depend on is its own skills and the decisions on them, so new skills touch their own
buckets, and those of skills whose decision they change.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import polars as pl

from facet_dagster.domain.facts import ArtifactFact, DecisionFact, Fact, PresenceFact, RawSkillFact
from facet_dagster.domain.ids import bucket_keys, bucket_of, digest, to_json
from facet_dagster.domain.skill import Alike, BucketDecisions, Duplicate, RawSkill
from facet_dagster.pipeline.policy import policy_of
from facet_dagster.pipeline.readings import Readings, policy_parts
from facet_dagster.ports import ArtifactStore, Embedder, Ledger
from facet_dagster.settings import Settings
from facet_dagster.stages.curate import VERSION, dedup

ALIKE = 0.95
BLOCK = 512
CLAIM = "corpus/decisions"
PAIRS = {"first": pl.Binary, "second": pl.Binary, "similarity": pl.Float64}
NEAREST = {"id": pl.String, "to": pl.String, "cosine": pl.Float64}


def version_of(settings: Settings) -> str:
    """Under which code and settings decisions stand."""
    parts = policy_parts(policy_of(settings))
    return digest([VERSION, dedup.VERSION, ALIKE, settings.embedder_dtype, parts])[:16]


def readings_of(settings: Settings) -> Readings:
    return Readings(settings.home / "readings", policy_of(settings), workers=settings.workers)


def withdraw(ids: Iterable[str], ledger: Ledger, *, present: bool = False) -> int:
    """Take skills out of the corpus, or back with ``present``; gives how many changed. What was made of them stays."""
    rounds = dict[str, tuple[int, bool]]()
    for skill, number, there in ledger.values(PresenceFact, "skill", "round", "present"):
        rounds[skill] = number, there
    changed = [ident for ident in dict.fromkeys(ids) if rounds.get(ident, (-1, True))[1] is not present]
    ledger.append(PresenceFact(skill=i, round=rounds.get(i, (-1, True))[0] + 1, present=present) for i in changed)
    return len(changed)


def skill_ids(ledger: Ledger) -> list[str]:
    """Every skill of the corpus, in the order of arrival."""
    there: dict[str, bool] = dict(ledger.values(PresenceFact, "skill", "present"))
    return [skill for (skill,) in ledger.values(RawSkillFact, "skill") if there.get(skill, True)]


def shares_of(ids: Iterable[str]) -> dict[str, list[str]]:
    """Bucket -> its ids, for every bucket."""
    shares: dict[str, list[str]] = {bucket: [] for bucket in bucket_keys()}
    for ident in ids:
        shares.setdefault(bucket_of(ident), []).append(ident)
    return shares


def bucket_inputs(ledger: Ledger) -> dict[str, str]:
    """Bucket -> digest of its skills and of what was decided about them last."""
    decided = {bucket: found[-1] for bucket, found in _decided(ledger).items()}
    shares = shares_of(skill_ids(ledger))
    return {bucket: digest([ids, decided.get(bucket, "")]) for bucket, ids in shares.items()}


def decisions(bucket: str, ledger: Ledger, store: ArtifactStore) -> BucketDecisions:
    """The last decisions on one bucket."""
    found = ledger.values(DecisionFact, "decided", bucket=bucket)
    return BucketDecisions.model_validate_json(store.get(found[-1][0])) if found else BucketDecisions()


def _decided(ledger: Ledger) -> dict[str, tuple[int, str, str, str]]:
    """Bucket -> round, version, raws, decided of its last DecisionFact."""
    rows = ledger.values(DecisionFact, "bucket", "round", "version", "raws", "decided")
    return {bucket: (number, version, raws, decided) for bucket, number, version, raws, decided in rows}


def decide(settings: Settings, *, ledger: Ledger, store: ArtifactStore, embedder: Embedder) -> None:
    """Read what is new and decide about duplicates again, unless the decisions stand. Processes wait for each other.

    Raises LedgerError, EmbedderError.
    """
    version = version_of(settings)
    with ledger.claim(CLAIM):
        ids = skill_ids(ledger)
        shares, last = shares_of(ids), _decided(ledger)
        wanted = {bucket: (version, digest(share)) for bucket, share in shares.items()}
        if all(last.get(bucket, ("",) * 4)[1:3] == stands for bucket, stands in wanted.items()):
            return
        readings = readings_of(settings)
        bring(readings, shares, ledger=ledger, store=store)
        found = _find(readings, ids, embedder)
        facts = list[Fact]()
        for bucket, (_, raws) in wanted.items():
            value = to_json(found.get(bucket, BucketDecisions())).encode()
            before = last.get(bucket, (-1, "", "", ""))
            fact = DecisionFact(bucket=bucket, round=before[0] + 1, version=version, raws=raws, decided=digest(value))
            if before[1:] != (version, raws, fact.decided):
                store.put(value)
                facts += [ArtifactFact(sha256=fact.decided, kind="decisions", size=len(value)), fact]
        ledger.append(facts)


def bring(readings: Readings, shares: Mapping[str, Sequence[str]], *, ledger: Ledger, store: ArtifactStore) -> None:
    """Examine the skills of these buckets that were not examined yet, one query a bucket."""
    missing = readings.missing(shares)
    raws = dict[str, list[RawSkill]]()
    for bucket, ids in missing.items():
        facts = ledger.find(RawSkillFact, bucket=bucket)
        raws[bucket] = [RawSkill.model_validate(fact.value) for fact in facts if fact.skill in ids]
    readings.read(raws, store)


def _find(readings: Readings, ids: Sequence[str], embedder: Embedder) -> dict[str, BucketDecisions]:
    table = readings.table(ids)
    pairs = _load(readings.folder / "pairs.parquet", PAIRS)
    known = {(first, second): similarity for first, second, similarity in pairs.iter_rows()}
    before = len(known)
    doubles = dedup.find(table, readings.shingles_of(table), known)
    if len(known) > before:
        rows = [(*pair, similarity) for pair, similarity in known.items()]
        _save(pl.DataFrame(rows, schema=PAIRS, orient="row"), readings.folder / "pairs.parquet")
    kept = table.filter(~pl.col("id").is_in(list(doubles))).select("id", "text")
    alike = _alike(kept, embedder, readings.folder / f"nearest-{digest(embedder.name)[:16]}.parquet")
    found = dict[str, tuple[dict[str, Duplicate], dict[str, Alike]]]()
    for ident, double in doubles.items():
        found.setdefault(bucket_of(ident), ({}, {}))[0][ident] = double
    for ident, other in alike.items():
        found.setdefault(bucket_of(ident), ({}, {}))[1][ident] = other
    return {bucket: BucketDecisions(duplicates=first, alike=second) for bucket, (first, second) in found.items()}


def _alike(kept: pl.DataFrame, embedder: Embedder, path: Path) -> dict[str, Alike]:
    """Skill -> the nearest one before it, where that is at least 0.95 near. What was compared is kept in ``path``."""
    ids = kept["id"].to_list()
    there = set(ids)
    old = {ident: (to, cosine) for ident, to, cosine in _load(path, NEAREST).iter_rows() if to is None or to in there}
    new = [place for place, ident in enumerate(ids) if ident not in old]
    if new:
        vectors = embedder.encode(kept["text"].to_list())
        for start in range(0, len(new), BLOCK):
            block = new[start : start + BLOCK]
            scores = vectors[block] @ vectors[: block[-1] + 1].T
            scores[np.arange(block[-1] + 1)[None, :] >= np.array(block)[:, None]] = -1.0
            best = scores.argmax(axis=1)
            for row, place in enumerate(block):
                score = float(scores[row, best[row]])
                old[ids[place]] = (ids[best[row]], round(score, 3)) if score >= ALIKE else (None, 0.0)
        rows = [(ident, *found) for ident, found in old.items()]
        _save(pl.DataFrame(rows, schema=NEAREST, orient="row"), path)
    return {ident: Alike(to=old[ident][0], cosine=old[ident][1]) for ident in ids if old[ident][0] is not None}


def _load(path: Path, schema: Mapping[str, pl.DataType | type[pl.DataType]]) -> pl.DataFrame:
    with suppress(OSError, pl.exceptions.PolarsError):
        table = pl.read_parquet(path, memory_map=False)
        if dict(table.schema) == schema:
            return table
    return pl.DataFrame(schema=dict(schema))


def _save(table: pl.DataFrame, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(f".{os.getpid()}.new")
    table.write_parquet(aside)
    aside.replace(path)
