"""From hypotheses over candidate pairs to the complete scenario C (paper, sections 3.1 and 3.2).

The classes that a model fills are its reply schemas: field descriptions are part of the prompt.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from facet_dagster.domain.outcome import Rejection, Value


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


class SkillHypotheses(Value):
    """The hypotheses of one skill, as stored by ``scenario_hypotheses``."""

    skill_id: str
    reply: HypothesisReply


class Candidate(Value):
    """An unordered pair of skills proposed by retrieval; ``skills`` is sorted."""

    id: str
    skills: tuple[str, str]
    anchor: str
    score: float


class JudgeReply(Value):
    """Reply of the ``judge`` call for one candidate pair."""

    complementary: bool = Field(description="one skill's result feeds the other, or both constrain one result")
    terminal_executable: bool = Field(description="doable offline, with files and a shell, no service or account")
    verifiable: int = Field(description="1 to 5: how well a program can check the result", ge=1, le=5)
    scenario: str = Field(description="the joint scenario in at most 60 words; empty when refused")
    reason: str = Field(description="one sentence for the decision")

    @property
    def accepted(self) -> bool:
        return self.complementary and self.terminal_executable and self.verifiable >= 3


class JudgedCandidate(Value):
    candidate: Candidate
    reply: JudgeReply
    rejection: Rejection | None = None


class Seed(Value):
    """A selected pair with its joint scenario: one partition from here on."""

    key: str
    candidate: str
    skills: tuple[str, str]
    scenario: str
    families: tuple[str, str]


class SkillAnalysis(Value):
    """Module 1, for one skill."""

    ref: Literal["A", "B"]
    purpose: str
    operations: list[str] = Field(description="concrete operations with their rules, in the skill's own terms")
    formats: list[str] = Field(description="files and fields it reads or writes")
    invariants: list[str] = Field(description="conditions that always hold, with exact boundaries")
    offline_form: str = Field(description="how it is done without network, account or GPU")


class AnalysisReply(Value):
    """Reply of the ``analyse`` call: module 1 (skill analysis) and module 2 (scenario exploration)."""

    skills: list[SkillAnalysis] = Field(description="exactly two, A then B", min_length=2, max_length=2)
    explored: list[str] = Field(description="2 to 4 joint scenarios, one sentence each")
    chosen: str = Field(description="the chosen one, in 60 to 120 words")
    why: str


class Discriminator(Value):
    """A rule, a plausible wrong reading of it, and the input row on which the two differ."""

    id: str = Field(description="D1, D2, ...")
    rule: str
    wrong_reading: str
    row: str = Field(description="the literal input row or value, and what each reading makes of it")


class Transition(Value):
    id: str = Field(description="T1, T2, ...")
    do: str
    pre: str
    post: str


class ReconstructReply(Value):
    """Reply of the ``reconstruct`` call: modules 3 (association), 4 (evolution), 5 (expansion)."""

    kept: list[str] = Field(description="elements of A and B that are used, and how they join")
    dropped: list[str] = Field(description="elements left out, with the reason")
    initial_state: list[str] = Field(description="facts true before the work starts, with /app paths")
    transitions: list[Transition] = Field(description="3 to 8 steps")
    final_state: list[str] = Field(description="facts true at the end, with /app paths")
    rules: list[str] = Field(description="numbered rules with exact parameters and boundaries")
    discriminators: list[Discriminator] = Field(description="4 to 8", min_length=3)


class Dimensions(Value):
    """The five dimensions (paper, section 3.2)."""

    goal: str
    context: str
    capability: list[str]
    state: list[str]
    io_and_tools: list[str]


class Requirement(Value):
    rid: str = Field(description="R1, R2, ...", pattern=r"^R\d+$")
    text: str = Field(description="one testable demand with exact paths, fields and rules")
    skill: Literal["A", "B", "AB"] = Field(description="the skill whose procedure it comes from")
    kind: Literal["output", "invariant", "behaviour"]


class ReferencesReply(Value):
    """Reply of the ``references`` call: C, its dimensions, solution reference, then instruction reference."""

    title: str = Field(description="at most 10 words")
    scenario: str = Field(description="the complete scenario C, 120 to 250 words")
    dimensions: Dimensions
    solution_reference: list[str] = Field(description="ordered workflow steps with paths read and written")
    instruction_goal: str
    requirements: list[Requirement] = Field(description="5 to 10", min_length=4)
    outputs: list[str] = Field(description="absolute paths below /app that the work must create", min_length=1)


class Scenario(Value):
    """Everything stage 2 knows about a seed: the specification that all later calls read."""

    seed: str
    analysis: AnalysisReply
    reconstruction: ReconstructReply
    references: ReferencesReply
