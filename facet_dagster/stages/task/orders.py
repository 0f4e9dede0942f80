"""In which order instruction (I), solution (S) and verifier (V) are written on one e0 (paper, Table 7).

All orders get the same specification and e0, the same guides for each artifact, and one second try for what breaks a
rule. Only what a writer sees of the others differs:

- forward, I -> S -> V: the verifier's writer is told the solution's steps, never its code.
- reverse, I -> V -> S: the verifier's writer sees no solution at all. The solution's writer is told ids, requirements
  and titles of the checks, never their bodies: the mirror of the forward order, in which code is withheld as well.
  With the bodies the solution would be fitted to them, and their mistakes would pass as right; without any of it
  the order of writing would make no difference to the solution.
- joint: one reply holds all three, so each is written in sight of the code of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from facet_dagster.domain.environment import Environment
from facet_dagster.domain.facts import AttemptFact
from facet_dagster.domain.outcome import Rejection
from facet_dagster.domain.scenario import Scenario
from facet_dagster.domain.task import InstructionReply, JointReply, Order, SolutionReply, VerifierReply
from facet_dagster.prompts import guide
from facet_dagster.stages.task.asking import Asker, Written
from facet_dagster.stages.task.lint import Problem, lint_collect, lint_instruction, lint_solution, lint_verifier
from facet_dagster.stages.task.render import markdown

Refusal = Callable[[str], Rejection | None]


@dataclass(frozen=True)
class Given:
    """What every order starts from. ``shared`` are the variables that all prompts show first, and identically.

    ``refusal`` says why an instruction may not become a task, whatever is written on it; None: nothing is asked.
    """

    scenario: Scenario
    environment: Environment
    shared: Mapping[str, Any]
    refusal: Refusal | None = None

    def refused(self, instruction: InstructionReply, *asked: Written[Any]) -> Refused | None:
        """The end of a draft whose instruction may not become a task, after what was ``asked``."""
        rejection = self.refusal(markdown(instruction)) if self.refusal else None
        attempts = tuple(attempt for one in asked for attempt in one.attempts)
        return Refused(rejection, attempts) if rejection else None

    def instruction_problems(
        self, reply: InstructionReply, solution: SolutionReply | None = None
    ) -> tuple[Problem, ...]:
        return lint_instruction(reply, self.scenario, self.environment.recipe.rules_file, solution)

    def solution_problems(self, reply: SolutionReply) -> tuple[Problem, ...]:
        return lint_solution(reply, services=bool(self.environment.recipe.services))

    def verifier_problems(self, reply: VerifierReply, instruction: InstructionReply) -> tuple[Problem, ...]:
        services, plans = bool(self.environment.recipe.services), self.environment.manifest.services
        return (
            *lint_verifier(reply, self.scenario, instruction),
            *lint_collect(reply, reply.collect, services=services, plans=plans),
        )

    def guides(self, *calls: str) -> dict[str, str]:
        """What the prompts of ``calls`` say about writing, for prompts that have no such text of their own."""
        return {f"{call}_guide": guide(call, self.shared) for call in calls}


@dataclass(frozen=True)
class Artifacts:
    """The three replies, the problems that they still have, and the attempts in the order of asking."""

    instruction: InstructionReply
    solution: SolutionReply
    verifier: VerifierReply
    problems: tuple[Problem, ...]
    attempts: tuple[AttemptFact, ...]


@dataclass(frozen=True)
class Refused:
    """There is no draft: why, and the attempts that led to it."""

    rejection: Rejection
    attempts: tuple[AttemptFact, ...]


class Strategy(Protocol):
    """One way to write the three artifacts. Raises MalformedReply for a first reply that does not fit."""

    def __call__(self, ask: Asker, given: Given) -> Artifacts | Refused: ...


def forward(ask: Asker, given: Given) -> Artifacts | Refused:
    """I -> S -> V."""
    instruction = _instruction(ask, given)
    if refused := given.refused(instruction.reply, instruction):
        return refused
    solution = _solution(ask, given, instruction.reply, None)
    verifier = _verifier(ask, given, instruction.reply, solution.reply.steps)
    return in_order(instruction, solution, verifier, instruction, solution, verifier)


def reverse(ask: Asker, given: Given) -> Artifacts | Refused:
    """I -> V -> S."""
    instruction = _instruction(ask, given)
    if refused := given.refused(instruction.reply, instruction):
        return refused
    verifier = _verifier(ask, given, instruction.reply, None)
    solution = _solution(ask, given, instruction.reply, verifier.reply)
    return in_order(instruction, solution, verifier, instruction, verifier, solution)


def joint(ask: Asker, given: Given) -> Artifacts | Refused:
    """All three in one reply; when one of them breaks a rule, the one second try asks for all three again."""

    def problems(reply: JointReply) -> tuple[Problem, ...]:
        return (
            *given.instruction_problems(reply.instruction, reply.solution),
            *given.solution_problems(reply.solution),
            *given.verifier_problems(reply.verifier, reply.instruction),
        )

    guides = given.guides("instruction", "solution", "verifier")
    written = ask("joint", JointReply, {**base(given), **guides}, problems, component="")
    reply = written.reply
    if refused := given.refused(reply.instruction, written):
        return refused
    return Artifacts(reply.instruction, reply.solution, reply.verifier, written.problems, written.attempts)


ORDERS: Mapping[Order, Strategy] = {"forward": forward, "reverse": reverse, "joint": joint}


def base(given: Given) -> dict[str, Any]:
    """The variables of the part with which every prompt begins; what only a guide shows stands in the guide."""
    return {name: given.shared[name] for name in ("scenario", "rules_file", "rules", "e0")}


def in_order(
    instruction: Written[InstructionReply],
    solution: Written[SolutionReply],
    verifier: Written[VerifierReply],
    *asked: Written[Any],
) -> Artifacts:
    """The artifacts, with their attempts in the order in which they were ``asked`` for."""
    return Artifacts(
        instruction.reply,
        solution.reply,
        verifier.reply,
        (*instruction.problems, *solution.problems, *verifier.problems),
        tuple(attempt for one in asked for attempt in one.attempts),
    )


def _instruction(ask: Asker, given: Given) -> Written[InstructionReply]:
    return ask("instruction", InstructionReply, given.shared, given.instruction_problems)


def _solution(
    ask: Asker, given: Given, instruction: InstructionReply, verifier: VerifierReply | None
) -> Written[SolutionReply]:
    checks = [{"id": c.id, "requirement": c.rid, "title": c.title} for c in verifier.checks] if verifier else None
    variables = {**given.shared, "instruction": markdown(instruction), "checks": checks}
    return ask("solution", SolutionReply, variables, given.solution_problems)


def _verifier(
    ask: Asker, given: Given, instruction: InstructionReply, steps: list[str] | None
) -> Written[VerifierReply]:
    variables = {
        **given.shared,
        "instruction": markdown(instruction),
        "outputs": instruction.outputs,
        "steps": steps,
    }
    return ask("verifier", VerifierReply, variables, partial(given.verifier_problems, instruction=instruction))
