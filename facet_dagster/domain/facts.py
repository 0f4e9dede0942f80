"""Rows of the lineage ledger: append-only facts, each with an id that is a hash of what it says.

One fact class is one table. Appending a fact whose id is there already changes nothing.
"""

from __future__ import annotations

from typing import Any, ClassVar

from facet_dagster.domain.ids import digest
from facet_dagster.domain.outcome import StageResult, Value, Verdict


class Fact(Value):
    """Base of all ledger rows. ``identity`` names the fields that make the id; empty means all.

    Those of ``sparse`` are part of it only when they hold something.
    """

    identity: ClassVar[tuple[str, ...]] = ()
    sparse: ClassVar[frozenset[str]] = frozenset()

    @property
    def fact_id(self) -> str:
        """64 hex digits."""
        data = self.model_dump(mode="json")
        names = [name for name in self.identity or data if data[name] or name not in self.sparse]
        return digest({name: data[name] for name in names})


class ArtifactFact(Fact):
    """A blob in the artifact store; ``kind`` says what it is (``skill.text``, ``scenario``, ...)."""

    identity = ("sha256",)
    sha256: str
    kind: str
    size: int


class RawSkillFact(Fact):
    """A collected SKILL.md (``value`` is a RawSkill)."""

    identity = ("skill",)
    skill: str
    bucket: str
    value: dict[str, Any]


class PresenceFact(Fact):
    """A collected skill leaves the corpus, or is back; the last ``round`` (from 0) counts, without any it is there."""

    identity = ("skill", "round")
    skill: str
    round: int
    present: bool


class DecisionFact(Fact):
    """What deduplication over the whole corpus decided about one bucket; the last ``round`` (from 0) counts.

    ``raws`` is the digest of the bucket's skills when that was, ``decided`` the artifact with BucketDecisions.
    """

    identity = ("bucket", "round")
    bucket: str
    round: int
    version: str
    raws: str
    decided: str


class SkillFact(Fact):
    """What stage 1 decided about a skill, under one version of the curation; the last one counts."""

    identity = ("skill", "version", "verdict", "reason", "duplicate_of")
    skill: str
    version: str
    bucket: str
    name: str
    family: str = ""
    licence: str = ""
    origin: str
    verdict: Verdict
    reason: str = ""
    message: str = ""
    duplicate_of: str | None = None


class HypothesisFact(Fact):
    """A scenario in which a skill would be used."""

    identity = ("skill", "title", "situation")
    skill: str
    title: str
    situation: str


class CandidateFact(Fact):
    """A proposed pair and what the judge said."""

    identity = ("candidate", "version")
    candidate: str
    version: str
    first: str
    second: str
    anchor: str
    score: float
    verdict: Verdict
    reason: str = ""
    message: str = ""


class SeedFact(Fact):
    """A selected pair: one partition."""

    identity = ("key",)
    key: str
    batch: str
    candidate: str
    first: str
    second: str
    scenario: str
    families: list[str]


class EdgeFact(Fact):
    """``child`` was made from ``parent``: the lineage that ``ancestors`` walks."""

    identity = ("child", "parent")
    child: str
    parent: str
    kind: str


class AttemptFact(Fact):
    """One build, draft, validation or repair. ``artifact`` holds its content.

    ``input_digest`` is that of the stage's result, empty where the attempt belongs to none.
    """

    identity = ("stage", "key", "kind", "round", "artifact", "input_digest")
    sparse = frozenset({"input_digest"})
    stage: str
    key: str
    kind: str
    round: int
    ok: bool
    component: str = ""
    summary: str = ""
    artifact: str | None = None
    input_digest: str = ""


class ModelCallFact(Fact):
    """One request for a reply. ``origin``: live, cache or tape. Never holds a key or a header.

    ``cost`` in USD, 0 when nothing was paid and None when the price is unknown; ``day`` (ISO, UTC) is when.
    ``retries`` are the tries after the first, ``waited`` the seconds between them.
    """

    identity = ("call", "cache_key", "subject", "turn", "origin", "run_id", "stamp")
    call: str
    cache_key: str
    tape_key: str
    subject: str
    attempt: int
    turn: int
    origin: str
    model: str
    prompt_tokens: int
    completion_tokens: int
    malformed: bool
    reply: str
    seconds: float
    run_id: str = ""
    stamp: str = ""
    day: str = ""
    cost: float | None = 0.0
    retries: int = 0
    waited: float = 0.0


class ReplyFact(Fact):
    """A paid reply, by content-addressed key: the model-call cache. ``model`` is the one that answered."""

    identity = ("cache_key",)
    cache_key: str
    call: str
    model: str
    reply: str
    prompt_tokens: int
    completion_tokens: int
    cost: float | None = None


class TrialFact(Fact):
    """One trial of one draft; ``draft`` is the draft's digest, ``repeat`` counts from 0, ``input_digest`` as in
    AttemptFact."""

    identity = ("stage", "key", "kind", "draft", "repeat", "input_digest")
    sparse = frozenset({"input_digest"})
    stage: str
    key: str
    kind: str
    draft: str
    round: int
    repeat: int
    reward: int | None
    exit_code: int | None
    seconds: float
    input_digest: str = ""


class CheckFact(Fact):
    """One check of one trial (``trial`` is the TrialFact's id)."""

    identity = ("trial", "check")
    trial: str
    check: str
    requirement: str
    status: str
    message: str


class QuarantineFact(Fact):
    """A task is taken out of what is given away, or let back in; the last ``round`` (from 0) of a seed counts.

    ``by`` is ``person`` or ``check``, ``name`` who or which; ``package`` is the artifact with the tar that was in
    force then, empty when there was none.
    """

    identity = ("key", "round")
    key: str
    round: int
    quarantined: bool
    note: str
    by: str = "person"
    name: str = ""
    package: str = ""


class RetryFact(Fact):
    """A stored result of one stage and seed shall be computed again; ``input_digest`` says which of them.

    The last ``round`` (from 1) counts. The old results stay; under another prompt, setting or input nothing changes.
    """

    identity = ("input_digest", "round")
    stage: str
    key: str
    input_digest: str
    round: int
    note: str = ""
    by: str = "person"
    name: str = ""


class SampleFact(Fact):
    """A task that was drawn for people to audit. ``of`` counts the tasks of its stratum when that was.

    The stratum is ``family`` and ``repaired``; ``number`` is what the draw began with, ``package`` the version drawn.
    """

    identity = ("sample", "key")
    sample: str
    key: str
    number: int
    family: str
    repaired: bool
    of: int
    package: str


class AuditFact(Fact):
    """What a person found about one version of a task; the last ``round`` (from 0) of a seed and package counts."""

    identity = ("key", "package", "round")
    key: str
    package: str
    round: int
    ok: bool
    note: str = ""
    name: str = ""


class StageFact(Fact):
    """A StageResult as stored: the unit of resume. ``under`` names version and settings, for people."""

    identity = ("stage", "key", "input_digest")
    stage: str
    key: str
    input_digest: str
    verdict: Verdict
    reason: str = ""
    component: str = ""
    rejected_at: str = ""
    under: str = ""
    result: StageResult


class SourceFact(Fact):
    """How a source of skills was when it was last read to its end; the last ``round`` (from 0) counts.

    ``state`` is a commit, or a digest of what stands in the folder and of how it is judged.
    """

    identity = ("source", "round")
    source: str
    round: int
    state: str


class NightFact(Fact):
    """A night began, or ended; the last ``round`` (from 0) of a night counts.

    ``state``: begun, done, budget (used up), trouble, stopped. ``release`` is the newest release then; ``report`` the
    artifact with the NightReport.
    """

    identity = ("night", "round")
    night: str
    round: int
    state: str
    said: str = ""
    release: str = ""
    report: str | None = None


class FailureFact(Fact):
    """A Dagster run failed. ``first`` to ``last`` are its partitions; ``moment`` (ISO, UTC) is when it was noted."""

    identity = ("run",)
    run: str
    job: str
    assets: list[str]
    first: str = ""
    last: str = ""
    message: str
    moment: str


class DatasetFact(Fact):
    """A task set or training set that was handed out; ``manifest`` is the artifact that tells how it came to be.

    What it was made from are the edges of ``dataset:<version>``.
    """

    identity = ("kind", "version")
    kind: str
    version: str
    rows: int
    tasks: int
    manifest: str


# What may be forgotten: asking again brings it back.
CACHES: tuple[type[Fact], ...] = (ReplyFact,)

FACTS: tuple[type[Fact], ...] = (
    ArtifactFact,
    RawSkillFact,
    PresenceFact,
    DecisionFact,
    SkillFact,
    HypothesisFact,
    CandidateFact,
    SeedFact,
    EdgeFact,
    AttemptFact,
    ModelCallFact,
    ReplyFact,
    TrialFact,
    CheckFact,
    StageFact,
    SourceFact,
    NightFact,
    FailureFact,
    QuarantineFact,
    RetryFact,
    SampleFact,
    AuditFact,
    DatasetFact,
)
