"""From hypotheses over candidate pairs to seeds (paper, section 3.1).

The classes that a model fills are its reply schemas: field descriptions are part of the prompt.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import Field

from facet_dagster.domain.outcome import Rejection, Sparse, Value


class TaskFamily(StrEnum):
    """What kind of work a task is (paper, Figure 3b); closed."""

    STRUCTURED_DATA = "structured data"
    DOCS_REPORTS = "documents and reports"
    MEDIA_PROCESSING = "media processing"
    ANALYTICS = "analytics and visualisation"
    SOFTWARE_ENGINEERING = "software engineering"
    CONTENT_PUBLISHING = "content publishing"
    AGENTS_SKILLS_MEMORY = "agents, skills and memory"
    SECURITY_SYSTEMS = "security and systems"
    INTEGRATION_AUDIT = "integration and audit"


FAMILY = "the family of the joint work, by what it is for and not by its file formats"


class Hypothesis(Value):
    """A terminal scenario in which a skill would be used."""

    title: str = Field(description="at most 12 words")
    situation: str = Field(description="who needs what, on which files; at most 60 words")
    inputs: list[str] = Field(description="kinds of input files, with formats")
    outputs: list[str] = Field(description="kinds of output files, with formats")


class HypothesisReply(Value):
    """Reply of the ``hypotheses`` call for one skill."""

    understanding: str = Field(description="what the skill does, at most 50 words")
    tags: list[str] = Field(description="3 to 6 short lower-case tags")
    concrete: bool = Field(description="false when the skill names a topic but no procedure, formats or rules")
    hypotheses: list[Hypothesis] = Field(description="1 to 3")


class Span(Value):
    """Where the words of an operation or a hypothesis stand in its skill: ``[start, end)``, characters of ``part``."""

    operation: str
    skill: str
    part: Literal["body", "description"]
    start: int
    end: int


class SkillHypotheses(Sparse):
    """The hypotheses of one skill, as stored by ``scenario_hypotheses``.

    ``extracted`` ones were read out of the skill itself without a model: ``spans`` are their places, H1, H2, ...
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"extracted", "spans"})

    skill_id: str
    reply: HypothesisReply
    extracted: bool = False
    spans: tuple[Span, ...] = ()


class BucketHypotheses(Value):
    """The value of ``scenario_hypotheses``; ``refused`` maps skills to why there is no reply."""

    items: tuple[SkillHypotheses, ...]
    refused: dict[str, str] = {}


class Candidate(Value):
    """An unordered pair of skills proposed by retrieval; ``skills`` is sorted."""

    id: str
    skills: tuple[str, str]
    anchor: str
    score: float


class JudgeReply(Value):
    """Reply of the ``judge`` call for one candidate pair."""

    complementary: bool = Field(description="one skill's result feeds the other, or both constrain one result")
    terminal_executable: bool = Field(
        description="doable offline, with files, a shell and at most a local server, no account"
    )
    verifiable: int = Field(description="1 to 5: how well a program can check the result", ge=1, le=5)
    scenario: str = Field(description="the joint scenario in at most 60 words; empty when refused")
    family: TaskFamily = Field(description=FAMILY)
    reason: str = Field(description="one sentence for the decision")

    @property
    def accepted(self) -> bool:
        return self.complementary and self.terminal_executable and self.verifiable >= 3


class JudgedCandidate(Value):
    """A candidate, what the judge said (None when it was not asked or not understood), and the refusal."""

    candidate: Candidate
    reply: JudgeReply | None = None
    rejection: Rejection | None = None


class BucketCandidates(Value):
    """The value of ``seed_candidates``: candidates anchored in one bucket."""

    items: tuple[JudgedCandidate, ...]


class Seed(Value):
    """A selected pair with its joint scenario: one partition from here on."""

    key: str
    candidate: str
    skills: tuple[str, str]
    scenario: str
    families: tuple[str, str]


class Selection(Sparse):
    """The value of ``seed_selection``: seeds that one selection added to a batch.

    ``repeated`` maps pairs that were refused to the seed or pair whose scenario theirs repeats.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"repeated"})

    batch: str
    seeds: tuple[Seed, ...]
    repeated: dict[str, str] = {}
