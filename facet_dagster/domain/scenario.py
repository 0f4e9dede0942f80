"""The complete scenario C of a seed, and what it is rebuilt from (paper, section 3.2).

The classes that a model fills are its reply schemas: field descriptions are part of the prompt.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from facet_dagster.domain.outcome import Sparse, Value
from facet_dagster.domain.seed import FAMILY, Span, TaskFamily


class Operation(Value):
    """One thing that a skill makes one able to do, and the words of the skill that say so."""

    id: str = Field(description="A1, A2, ... of skill A; B1, B2, ... of skill B", pattern=r"^[AB]\d+$")
    text: str = Field(description="the operation with its rules and numbers, in the skill's own terms")
    quote: str = Field(
        default="",
        description="one passage of 3 to 30 words that it rests on, copied letter by letter from the skill; empty "
        "when the skill does not say it (common practice)",
    )


class SkillAnalysis(Value):
    """Module 1, for one skill."""

    ref: Literal["A", "B"]
    purpose: str = Field(description="one sentence")
    operations: list[Operation] = Field(description="4 to 14 concrete operations")
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

    def extract(self) -> dict[str, Any]:
        """What the reconstruction reads: the chosen scenario and the skills, without quotes and other scenarios."""
        skills = [skill.model_dump(mode="json") for skill in self.skills]
        for skill in skills:
            skill["operations"] = [_only(operation, "id", "text") for operation in skill["operations"]]
        return {"chosen": self.chosen, "why": self.why, "skills": skills}

    def operations(self) -> dict[str, Any]:
        """What the references read: the chosen scenario and the operations by their ids."""
        found = {operation.id: operation.text for skill in self.skills for operation in skill.operations}
        return {"chosen": self.chosen, "operations": found}


class Discriminator(Value):
    """A rule, a plausible wrong reading of it, and the input row on which the two differ."""

    id: str = Field(description="D1, D2, ...", pattern=r"^D\d+$")
    rule: str = Field(description="the rule's number and the condition in question")
    wrong_reading: str = Field(description="a mistake that a competent engineer in a hurry would make")
    row: str = Field(description="the literal input row or rows, letter by letter, and nothing else; the file of each")
    right: str = Field(default="", description="what the right reading makes of it")
    wrong: str = Field(default="", description="what the wrong reading makes of it")


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
        description="8 to 18 rules, each beginning with its number ('1. ', '2. ', ...), with exact parameters, "
        "units, boundaries (inclusive or exclusive), rounding and order",
        min_length=4,
    )
    discriminators: list[Discriminator] = Field(description="4 to 10", min_length=3)


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
    sources: list[str] = Field(
        default=[],
        description="ids of the operations of the analysis that it comes from; an invariant has none, nor has what an "
        "alignment adds",
    )
    kind: Literal["output", "invariant", "behaviour"] = Field(
        description="output: a file's content; invariant: true before and after (inputs unchanged); behaviour: what a "
        "produced script, database or config does when it is used"
    )


class ReferencesReply(Value):
    """Reply of the ``references`` call: C, its dimensions, solution reference, then instruction reference."""

    title: str = Field(description="at most 10 words")
    family: TaskFamily = Field(description=FAMILY)
    scenario: str = Field(description="the complete scenario C, 120 to 250 words")
    dimensions: Dimensions
    solution_reference: list[str] = Field(
        description="ordered workflow steps, each with the /app paths it reads and writes and the rules it applies"
    )
    instruction_goal: str = Field(description="what the agent is asked for, in two or three sentences")
    requirements: list[Requirement] = Field(description="6 to 16, ids R1, R2, ... without gaps", min_length=4)
    outputs: list[str] = Field(
        description="absolute path, below /app, of every file that the work creates and that does not exist before it",
        min_length=1,
    )


class BriefReply(Value):
    """Reply of the ``brief`` call: a specification in one step, straight from two skills."""

    title: str = Field(description="at most 10 words")
    family: TaskFamily = Field(description=FAMILY)
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


class StepLink(Value):
    """A step of the solution reference and the requirements that it fulfils."""

    step: int = Field(description="its position, from 1", ge=1)
    rids: list[str] = Field(description="requirement ids; empty when it only reads or prepares")


class Ambiguity(Value):
    """A requirement that can be read in more than one way, and the sentence that ends it."""

    rid: str = Field(pattern=r"^R\d+$")
    readings: list[str] = Field(description="the readings, each with the result that it gives", min_length=2)
    settled: str = Field(
        description="one sentence, added to the requirement, that leaves only the reading of the solution reference"
    )


class AlignmentReply(Value):
    """Reply of the ``align`` call: do solution reference and instruction reference mean one and the same work?"""

    initial_same: bool = Field(description="both begin with the same files, formats and values")
    final_same: bool = Field(description="both end with the same files, formats and values")
    differences: list[str] = Field(default=[], description="one sentence for each difference between the two")
    steps: list[StepLink] = Field(description="every step of the solution reference once", min_length=1)
    ambiguous: list[Ambiguity] = Field(default=[], description="only where two careful people would differ")
    add_requirements: list[Requirement] = Field(
        default=[], description="what the solution reference does or a rule demands, and no requirement asks for"
    )
    corrections: list[str] = Field(
        default=[], description="slips inside states, rules or discriminators: the place, and what holds instead"
    )


MODULES = (
    "skill_analysis",
    "exploration",
    "association",
    "evolution",
    "expansion",
    "dimensions",
    "scenario",
    "solution_reference",
    "instruction_reference",
    "alignment",
)


class Scenario(Sparse):
    """Everything stage 2 knows about a seed: the specification that all later calls read.

    ``references`` hold what the alignment added; ``spans`` are the places in the skills that operations rest on.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"alignment", "spans"})

    seed: str
    analysis: AnalysisReply
    reconstruction: ReconstructReply | BareReconstruction
    references: ReferencesReply
    alignment: AlignmentReply | None = None
    spans: tuple[Span, ...] = ()

    def modules(self) -> dict[str, Any]:
        """The five modules, the dimensions, C, both references and their alignment, each as JSON data: MODULES."""
        read, built = self.analysis.model_dump(mode="json"), self.reconstruction.model_dump(mode="json")
        refs = self.references.model_dump(mode="json")
        parts = {
            "skill_analysis": {"skills": read["skills"]},
            "exploration": _only(read, "explored", "chosen", "why"),
            "association": _only(built, "kept", "dropped"),
            "evolution": _only(built, "initial_state", "transitions", "final_state"),
            "expansion": _only(built, "rules", "discriminators"),
            "dimensions": refs["dimensions"],
            "scenario": _only(refs, "title", "family", "scenario"),
            "solution_reference": {"steps": refs["solution_reference"]},
            "instruction_reference": _only(refs, "instruction_goal", "requirements", "outputs"),
        }
        aligned = self.alignment.model_dump(mode="json") if self.alignment else None
        return {**parts, **({"alignment": aligned} if aligned else {})}

    def specification(self) -> dict[str, Any]:
        """The part that every later prompt shows first: JSON data, the same for each call of a seed."""
        found = specification(self.references, self.reconstruction)
        corrections = self.alignment.corrections if self.alignment else []
        return {**found, **({"corrections": list(corrections)} if corrections else {})}


def specification(references: ReferencesReply, reconstruction: ReconstructReply) -> dict[str, Any]:
    """C, the dimensions, states, rules, discriminators and both references, as JSON data."""
    refs, built = references.model_dump(mode="json"), reconstruction.model_dump(mode="json")
    for requirement in refs["requirements"]:
        requirement.pop("sources")  # ids of an analysis that the readers do not see
    return {
        **_only(refs, "title", "scenario", "dimensions"),
        **_only(built, "initial_state", "transitions", "final_state", "rules", "discriminators"),
        **_only(refs, "solution_reference", "instruction_goal", "requirements", "outputs"),
    }


def _only(data: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: data[name] for name in names}
