"""Instruction, solution and verifier, and the Harbor task they become (paper, sections 3.3 and 3.4)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from facet_dagster.domain.outcome import Component, Rejection, Value
from facet_dagster.domain.trial import Trial


class Section(Value):
    rids: list[str] = Field(description="requirement ids this section states; empty for context")
    text: str = Field(description="Markdown, no heading")


class InstructionReply(Value):
    """Reply of the ``instruction`` call; the Markdown is rendered from it."""

    title: str
    intro: str
    sections: list[Section] = Field(min_length=1)
    outputs: list[str] = Field(description="absolute paths the work must create", min_length=1)


class SolutionReply(Value):
    """Reply of the ``solution`` call."""

    solve_sh: str = Field(description="complete bash script, runs as user 'agent' with working directory /app")
    steps: list[str] = Field(description="what it does, step by step, each naming its requirement ids")


class Check(Value):
    id: str = Field(description="C1, C2, ...", pattern=r"^C\d+$")
    rid: str = Field(description="the requirement it tests", pattern=r"^R\d+$")
    title: str = Field(description="at most 12 words")
    invariant: bool = Field(default=False, description="true when it also passes on the untouched initial state")
    depends_on: list[str] = Field(default=[], description="check ids that must pass first, e.g. the file parses")
    body: str = Field(
        description="body of a Python function without arguments; uses the helpers, APP and E0; "
        "raises AssertionError on failure"
    )


class VerifierReply(Value):
    """Reply of the ``verifier`` call."""

    helpers: str = Field(
        description="Python 3 standard library: imports and helper functions; no code that runs a check"
    )
    checks: list[Check] = Field(min_length=8)


class Classification(Value):
    """Which component is at fault, and why (paper, Table 8, step 'classify')."""

    component: Component
    evidence: str


class TaskEdit(Value):
    """Replace ``find`` (must occur exactly once) by ``replace``.

    ``target`` is ``instruction`` (the intro), ``section <n>`` (from 0), ``solve.sh``, ``helpers`` or a
    check id; for an environment repair a path below /app, or ``generator``.
    """

    target: str
    find: str
    replace: str


class TaskRepairReply(Value):
    """Reply of the ``repair_task`` call: a classification and edits of that component only."""

    component: Literal["instruction", "environment", "solution", "verifier"]
    evidence: str = Field(description="quote the failing check and the sentence or file that shows who is wrong")
    infeasible: bool = Field(default=False, description="true when no bounded edit can make the task valid")
    edits: list[TaskEdit] = []


class Draft(Value):
    """The three artifacts as written on one e0; ``round`` counts repairs."""

    seed: str
    instruction: InstructionReply
    solution: SolutionReply
    verifier: VerifierReply
    e0_digest: str
    image: str
    round: int = 0


class Validation(Value):
    """One full validation of a draft: both trials, and the rejection when it is not valid."""

    round: int
    baseline: Trial
    oracle: Trial | None
    rejection: Rejection | None

    @property
    def valid(self) -> bool:
        return self.rejection is None


class RepairRound(Value):
    round: int
    component: Component
    evidence: str
    changed: tuple[str, ...]


class Task(Value):
    """The value of ``first_validation`` and ``task``: the draft in force, its environment and its history."""

    seed: str
    title: str
    draft: Draft
    environment: str
    validations: tuple[Validation, ...]
    repairs: tuple[RepairRound, ...] = ()


class Certificate(Value):
    """What was shown about a task. Level ``basic``: oracle 3 of 3 and baseline 0 of 2."""

    seed: str
    level: Literal["basic"]
    oracle: tuple[int, ...]
    baseline: tuple[int, ...]
    image: str
    base_image: str
    standin: bool
    package: str = Field(description="digest of the Harbor package")
