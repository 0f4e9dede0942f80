"""From hypotheses over candidate pairs to the complete scenario C (paper, sections 3.1 and 3.2).

The classes that a model fills are its reply schemas: field descriptions are part of the prompt.
"""

from __future__ import annotations

from typing import Any, Literal

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
    terminal_executable: bool = Field(description="doable offline, with files and a shell, no service or account")
    verifiable: int = Field(description="1 to 5: how well a program can check the result", ge=1, le=5)
    scenario: str = Field(description="the joint scenario in at most 60 words; empty when refused")
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


class Selection(Value):
    """The value of ``seed_selection``: seeds that one selection added to a batch."""

    batch: str
    seeds: tuple[Seed, ...]


class SkillAnalysis(Value):
    """Module 1, for one skill."""

    ref: Literal["A", "B"]
    purpose: str = Field(description="one sentence")
    operations: list[str] = Field(
        description="4 to 10 concrete operations with their rules and numbers, in the skill's own terms"
    )
    formats: list[str] = Field(description="files it reads or writes, each with its fields")
    invariants: list[str] = Field(description="conditions that always hold, with exact boundaries")
    offline_form: str = Field(
        description="how it is done with files and a shell alone; what a service would have returned becomes a file"
    )


class AnalysisReply(Value):
    """Reply of the ``analyse`` call: module 1 (skill analysis) and module 2 (scenario exploration)."""

    skills: list[SkillAnalysis] = Field(description="exactly two, A then B", min_length=2, max_length=2)
    explored: list[str] = Field(description="2 to 4 joint scenarios, one sentence each")
    chosen: str = Field(description="the chosen one, in 60 to 120 words: who, which files, which results")
    why: str = Field(description="one sentence: what both skills contribute, and how a program can check it")


class Discriminator(Value):
    """A rule, a plausible wrong reading of it, and the input row on which the two differ."""

    id: str = Field(description="D1, D2, ...", pattern=r"^D\d+$")
    rule: str = Field(description="the rule's number and the condition in question")
    wrong_reading: str = Field(description="a mistake that a competent engineer in a hurry would make")
    row: str = Field(
        description="the literal input row or value with a unique id, what the right reading makes of it, "
        "and what the wrong one makes of it"
    )


class Transition(Value):
    """One step from a state to the next."""

    id: str = Field(description="T1, T2, ...")
    do: str = Field(description="one step of the work")
    pre: str = Field(description="what is true before it")
    post: str = Field(description="what is true after it, with /app paths")


class ReconstructReply(Value):
    """Reply of the ``reconstruct`` call: modules 3 (association), 4 (evolution), 5 (expansion)."""

    kept: list[str] = Field(description="elements of A and B that are used, and how they join")
    dropped: list[str] = Field(description="elements left out, with the reason")
    initial_state: list[str] = Field(description="facts true before the work starts, with /app paths")
    transitions: list[Transition] = Field(description="3 to 8 steps")
    final_state: list[str] = Field(description="facts true at the end, with /app paths")
    rules: list[str] = Field(
        description="6 to 14 rules, each beginning with its number ('1. ', '2. ', ...), with exact parameters, "
        "units, boundaries (inclusive or exclusive), rounding and order",
        min_length=4,
    )
    discriminators: list[Discriminator] = Field(description="4 to 8", min_length=3)


class BareReconstruction(ReconstructReply):
    """States and rules without discriminators: what a scenario has that was not reconstructed."""

    discriminators: list[Discriminator] = []


class Dimensions(Value):
    """The five dimensions (paper, section 3.2)."""

    goal: str = Field(description="the result and what it is for")
    context: str = Field(description="who works here, on what, under which constraints")
    capability: list[str] = Field(description="what one must be able to do, from both skills")
    state: list[str] = Field(description="what changes between the initial and the final state")
    io_and_tools: list[str] = Field(description="each input and output with its format; the tools that suffice")


class Requirement(Value):
    """One testable demand."""

    rid: str = Field(description="R1, R2, ...", pattern=r"^R\d+$")
    text: str = Field(
        description="one testable demand with exact /app paths, field names in order, the numbers of the rules it "
        "applies, sort order and rounding"
    )
    skill: Literal["A", "B", "AB"] = Field(description="the skill whose procedure it comes from")
    kind: Literal["output", "invariant", "behaviour"] = Field(
        description="output: a file's content; invariant: true before and after (inputs unchanged); behaviour: what a "
        "produced script, database or config does when it is used"
    )


class ReferencesReply(Value):
    """Reply of the ``references`` call: C, its dimensions, solution reference, then instruction reference."""

    title: str = Field(description="at most 10 words")
    scenario: str = Field(description="the complete scenario C, 120 to 250 words")
    dimensions: Dimensions
    solution_reference: list[str] = Field(
        description="ordered workflow steps, each with the /app paths it reads and writes and the rules it applies"
    )
    instruction_goal: str = Field(description="what the agent is asked for, in two or three sentences")
    requirements: list[Requirement] = Field(description="5 to 10, ids R1, R2, ... without gaps", min_length=4)
    outputs: list[str] = Field(
        description="absolute path, below /app, of every file that the work creates and that does not exist before it",
        min_length=1,
    )


class BriefReply(Value):
    """Reply of the ``brief`` call: a specification in one step, straight from two skills."""

    title: str = Field(description="at most 10 words")
    scenario: str = Field(description="who needs what, from which files, with which results; 80 to 200 words")
    initial_state: list[str] = Field(description="each initial file: its /app path and what it holds", min_length=3)
    rules: list[str] = Field(
        description="the rules of the work, each beginning with its number ('1. ', '2. ', ...)", min_length=4
    )
    requirements: list[Requirement] = Field(description="ids R1, R2, ... without gaps", min_length=4)
    outputs: list[str] = Field(
        description="absolute path, below /app, of every file that the work creates and that does not exist before it",
        min_length=1,
    )


class Scenario(Value):
    """Everything stage 2 knows about a seed: the specification that all later calls read."""

    seed: str
    analysis: AnalysisReply
    reconstruction: ReconstructReply | BareReconstruction
    references: ReferencesReply

    def specification(self) -> dict[str, Any]:
        """The part that every later prompt shows first: JSON data, the same for each call of a seed."""
        refs, built = self.references.model_dump(mode="json"), self.reconstruction.model_dump(mode="json")
        return {
            **{name: refs[name] for name in ("title", "scenario", "dimensions")},
            **{
                name: built[name] for name in ("initial_state", "transitions", "final_state", "rules", "discriminators")
            },
            **{name: refs[name] for name in ("solution_reference", "instruction_goal", "requirements", "outputs")},
        }
