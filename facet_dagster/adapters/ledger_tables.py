"""The ledger's tables: one model per fact class, one column per field of the fact.

Every row also has ``id`` (the fact's id), ``seq`` (place in the order of appending, over all tables) and
``at`` (when it was stored). Columns that are looked up are indexed. A change here needs a migration.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from facet_dagster.domain import facts

FACT_SEQ = "fact_seq"


class Base(DeclarativeBase):
    """Common columns, and how Python types are stored."""

    metadata = sa.MetaData(
        naming_convention={
            "pk": "%(table_name)s_pkey",
            "uq": "%(table_name)s_%(column_0_N_name)s_key",
            "ix": "%(table_name)s_%(column_0_N_name)s_idx",
        }
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        str: sa.Text,
        int: sa.BigInteger,
        float: sa.Double,
        datetime: sa.DateTime(timezone=True),
        dict[str, Any]: JSONB(none_as_null=True),
        list[str]: JSONB(none_as_null=True),
    }
    fact: ClassVar[type[facts.Fact]]

    id: Mapped[str] = mapped_column(primary_key=True, sort_order=-1)
    seq: Mapped[int] = mapped_column(unique=True, sort_order=90)
    at: Mapped[datetime] = mapped_column(server_default=sa.func.now(), sort_order=91)


sa.Sequence(FACT_SEQ, metadata=Base.metadata)


class ArtifactRow(Base):
    __tablename__ = "artifacts"
    fact = facts.ArtifactFact
    sha256: Mapped[str]
    kind: Mapped[str]
    size: Mapped[int]


class RawSkillRow(Base):
    __tablename__ = "raw_skills"
    fact = facts.RawSkillFact
    skill: Mapped[str]
    bucket: Mapped[str] = mapped_column(index=True)
    value: Mapped[dict[str, Any]]


class PresenceRow(Base):
    __tablename__ = "presences"
    fact = facts.PresenceFact
    skill: Mapped[str] = mapped_column(index=True)
    round: Mapped[int]
    present: Mapped[bool]


class DecisionRow(Base):
    __tablename__ = "decisions"
    fact = facts.DecisionFact
    bucket: Mapped[str] = mapped_column(index=True)
    round: Mapped[int]
    version: Mapped[str]
    raws: Mapped[str]
    decided: Mapped[str]


class SkillRow(Base):
    __tablename__ = "skills"
    fact = facts.SkillFact
    skill: Mapped[str] = mapped_column(index=True)
    version: Mapped[str]
    bucket: Mapped[str] = mapped_column(index=True)
    name: Mapped[str]
    family: Mapped[str]
    licence: Mapped[str]
    origin: Mapped[str]
    verdict: Mapped[str]
    reason: Mapped[str]
    message: Mapped[str]
    duplicate_of: Mapped[str | None]


class HypothesisRow(Base):
    __tablename__ = "hypotheses"
    fact = facts.HypothesisFact
    skill: Mapped[str] = mapped_column(index=True)
    title: Mapped[str]
    situation: Mapped[str]


class CandidateRow(Base):
    __tablename__ = "candidates"
    fact = facts.CandidateFact
    candidate: Mapped[str] = mapped_column(index=True)
    version: Mapped[str]
    first: Mapped[str]
    second: Mapped[str]
    anchor: Mapped[str]
    score: Mapped[float]
    verdict: Mapped[str]
    reason: Mapped[str]
    message: Mapped[str]


class SeedRow(Base):
    __tablename__ = "seeds"
    fact = facts.SeedFact
    key: Mapped[str] = mapped_column(index=True)
    batch: Mapped[str] = mapped_column(index=True)
    candidate: Mapped[str] = mapped_column(index=True)
    first: Mapped[str]
    second: Mapped[str]
    scenario: Mapped[str]
    families: Mapped[list[str]]


class EdgeRow(Base):
    __tablename__ = "edges"
    fact = facts.EdgeFact
    child: Mapped[str] = mapped_column(index=True)
    parent: Mapped[str] = mapped_column(index=True)
    kind: Mapped[str]


class AttemptRow(Base):
    __tablename__ = "attempts"
    __table_args__ = (sa.Index(None, "stage", "key"),)
    fact = facts.AttemptFact
    stage: Mapped[str]
    key: Mapped[str] = mapped_column(index=True)
    kind: Mapped[str]
    round: Mapped[int]
    ok: Mapped[bool]
    component: Mapped[str]
    summary: Mapped[str]
    artifact: Mapped[str | None]
    input_digest: Mapped[str] = mapped_column(server_default="")


class ModelCallRow(Base):
    __tablename__ = "model_calls"
    fact = facts.ModelCallFact
    call: Mapped[str]
    cache_key: Mapped[str] = mapped_column(index=True)
    tape_key: Mapped[str]
    subject: Mapped[str] = mapped_column(index=True)
    attempt: Mapped[int]
    turn: Mapped[int]
    origin: Mapped[str]
    model: Mapped[str]
    prompt_tokens: Mapped[int]
    completion_tokens: Mapped[int]
    malformed: Mapped[bool]
    reply: Mapped[str]
    seconds: Mapped[float]
    run_id: Mapped[str] = mapped_column(index=True)
    stamp: Mapped[str]
    day: Mapped[str] = mapped_column(index=True, server_default="")
    cost: Mapped[float | None]
    retries: Mapped[int] = mapped_column(server_default="0")
    waited: Mapped[float] = mapped_column(server_default="0")


class ReplyRow(Base):
    __tablename__ = "replies"
    fact = facts.ReplyFact
    cache_key: Mapped[str] = mapped_column(index=True)
    call: Mapped[str]
    model: Mapped[str]
    reply: Mapped[str]
    prompt_tokens: Mapped[int]
    completion_tokens: Mapped[int]
    cost: Mapped[float | None]


class TrialRow(Base):
    __tablename__ = "trials"
    __table_args__ = (sa.Index(None, "stage", "key"),)
    fact = facts.TrialFact
    stage: Mapped[str]
    key: Mapped[str] = mapped_column(index=True)
    kind: Mapped[str]
    draft: Mapped[str]
    round: Mapped[int]
    repeat: Mapped[int]
    reward: Mapped[int | None]
    exit_code: Mapped[int | None]
    seconds: Mapped[float]
    input_digest: Mapped[str] = mapped_column(server_default="")


class CheckRow(Base):
    __tablename__ = "checks"
    fact = facts.CheckFact
    trial: Mapped[str] = mapped_column(index=True)
    check: Mapped[str]
    requirement: Mapped[str]
    status: Mapped[str]
    message: Mapped[str]


class StageRow(Base):
    __tablename__ = "stages"
    __table_args__ = (sa.Index(None, "stage", "key", "input_digest"),)
    fact = facts.StageFact
    stage: Mapped[str]
    key: Mapped[str] = mapped_column(index=True)
    input_digest: Mapped[str]
    verdict: Mapped[str]
    reason: Mapped[str]
    component: Mapped[str]
    rejected_at: Mapped[str]
    under: Mapped[str] = mapped_column(server_default="")
    result: Mapped[dict[str, Any]]


class SourceRow(Base):
    __tablename__ = "sources"
    fact = facts.SourceFact
    source: Mapped[str] = mapped_column(index=True)
    round: Mapped[int]
    state: Mapped[str]


class NightRow(Base):
    __tablename__ = "nights"
    fact = facts.NightFact
    night: Mapped[str] = mapped_column(index=True)
    round: Mapped[int]
    state: Mapped[str]
    said: Mapped[str]
    release: Mapped[str]
    report: Mapped[str | None]


class FailureRow(Base):
    __tablename__ = "failures"
    fact = facts.FailureFact
    run: Mapped[str]
    job: Mapped[str]
    assets: Mapped[list[str]]
    first: Mapped[str]
    last: Mapped[str]
    message: Mapped[str]
    moment: Mapped[str]


class QuarantineRow(Base):
    __tablename__ = "quarantines"
    fact = facts.QuarantineFact
    key: Mapped[str] = mapped_column(index=True)
    round: Mapped[int]
    quarantined: Mapped[bool]
    note: Mapped[str]
    by: Mapped[str]
    name: Mapped[str]
    package: Mapped[str]


class RetryRow(Base):
    __tablename__ = "retries"
    __table_args__ = (sa.Index(None, "stage", "key"),)
    fact = facts.RetryFact
    stage: Mapped[str]
    key: Mapped[str]
    input_digest: Mapped[str]
    round: Mapped[int]
    note: Mapped[str]
    by: Mapped[str]
    name: Mapped[str]


class SampleRow(Base):
    __tablename__ = "samples"
    fact = facts.SampleFact
    sample: Mapped[str] = mapped_column(index=True)
    key: Mapped[str] = mapped_column(index=True)
    number: Mapped[int]
    family: Mapped[str]
    repaired: Mapped[bool]
    of: Mapped[int]
    package: Mapped[str]


class AuditRow(Base):
    __tablename__ = "audits"
    fact = facts.AuditFact
    key: Mapped[str] = mapped_column(index=True)
    package: Mapped[str]
    round: Mapped[int]
    ok: Mapped[bool]
    note: Mapped[str]
    name: Mapped[str]


class DatasetRow(Base):
    __tablename__ = "datasets"
    fact = facts.DatasetFact
    kind: Mapped[str]
    version: Mapped[str] = mapped_column(index=True)
    rows: Mapped[int]
    tasks: Mapped[int]
    manifest: Mapped[str]


ROWS: dict[type[facts.Fact], type[Base]] = {mapper.class_.fact: mapper.class_ for mapper in Base.registry.mappers}


def table_of(kind: type[facts.Fact]) -> sa.Table:
    """The table that holds facts of this class."""
    table = ROWS[kind].__table__
    assert isinstance(table, sa.Table)
    return table


def fields_of(kind: type[facts.Fact]) -> list[sa.Column[Any]]:
    """The columns that are fields of the fact, in its order."""
    return [table_of(kind).c[name] for name in kind.model_fields]
