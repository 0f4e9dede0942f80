"""Recording-style drafts, S -> I -> V: the work is done once in the environment, then the task is derived from it.

So the result is real before anybody has said what is asked for. The writers of instruction and verifier see the
steps of the session and what it changed, never its code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from facet_dagster.domain.e0 import e0_from_archive
from facet_dagster.domain.environment import E0, E0File, Environment
from facet_dagster.domain.outcome import Component, Reason, reject
from facet_dagster.domain.task import InstructionReply, SolutionReply, VerifierReply
from facet_dagster.errors import InvariantError
from facet_dagster.ports import Sandbox
from facet_dagster.stages.task.asking import Asker, Written
from facet_dagster.stages.task.images import Images, environment_image
from facet_dagster.stages.task.lint import Problem
from facet_dagster.stages.task.orders import Artifacts, Given, Refused, base, in_order
from facet_dagster.stages.task.package import TaskLimits
from facet_dagster.stages.task.render import markdown, script
from facet_dagster.stages.task.trial import Trials

FINAL = 7_000
TAIL = 1_500


@dataclass(frozen=True)
class Recording:
    """The strategy; a session runs for at most ``trial_seconds``. Also raises SandboxError."""

    sandbox: Sandbox
    trial_seconds: float

    def __call__(self, ask: Asker, given: Given) -> Artifacts | Refused:
        """A session that ends badly, or without an output, is asked for once more; then the draft is refused."""
        bench = _Bench(self.sandbox, TaskLimits.of(self.trial_seconds), given)
        variables = {**base(given), **given.guides("solution")}
        session = ask("session", SolutionReply, variables, bench.problems, Component.SOLUTION)
        failed = bench.failures(session.reply)
        if failed:
            why = f"The recorded session gives no final state: {failed[0].text}"
            texts = [problem.text for problem in failed]
            return Refused(reject(Reason.TASK_SOLUTION_CRASHED, why, problems=texts), session.attempts)
        shown = {"steps": session.reply.steps, "final": bench.final(session.reply)}
        instruction = ask(
            "session_instruction",
            InstructionReply,
            {**base(given), **given.guides("instruction"), **shown},
            given.instruction_problems,
            Component.INSTRUCTION,
        )
        if refused := given.refused(instruction.reply, session, instruction):
            return refused
        verifier = self._verifier(ask, given, instruction.reply, shown)
        return in_order(instruction, session, verifier, session, instruction, verifier)

    def _verifier(
        self, ask: Asker, given: Given, instruction: InstructionReply, shown: dict[str, Any]
    ) -> Written[VerifierReply]:
        texts = {"instruction": markdown(instruction), "outputs": instruction.outputs}
        return ask(
            "session_verifier",
            VerifierReply,
            {**base(given), **given.guides("verifier"), **shown, **texts},
            partial(given.verifier_problems, instruction=instruction),
            Component.VERIFIER,
        )


@dataclass
class _Bench:
    """Runs each session once; what it left is kept by its script."""

    sandbox: Sandbox
    limits: TaskLimits
    given: Given
    _done: dict[str, tuple[tuple[Problem, ...], E0 | None]] = field(default_factory=dict)

    def problems(self, reply: SolutionReply) -> tuple[Problem, ...]:
        return (*self.given.solution_problems(reply), *self.failures(reply))

    def failures(self, reply: SolutionReply) -> tuple[Problem, ...]:
        return self._of(reply)[0]

    def final(self, reply: SolutionReply) -> dict[str, Any]:
        """What differs from e0, as data: new and altered files, and the paths of removed ones."""
        left, start = self._of(reply)[1], self.given.environment.e0
        if left is None or start is None:
            raise InvariantError(f"Seed {self.given.environment.seed} has no recorded session")
        before = {file.path: file for file in start.files}
        changed = tuple(file for file in left.files if _differs(file, before.get(file.path)))
        files = left.model_copy(update={"files": changed}).view(FINAL)["files"]
        return {"files": files, "removed": sorted(set(before) - {file.path for file in left.files})}

    def _of(self, reply: SolutionReply) -> tuple[tuple[Problem, ...], E0 | None]:
        text = script(reply.solve_sh)
        if text not in self._done:
            self._done[text] = self._run(text)
        return self._done[text]

    def _run(self, text: str) -> tuple[tuple[Problem, ...], E0 | None]:
        environment = self.given.environment
        with environment_image(environment, self.sandbox, self.limits) as image:
            trials = Trials(_no_judge(image, environment), self.sandbox, self.limits, environment.seed)
            work = trials.work(text.encode())
        if work.program is None or not work.program.ok or work.left.app is None:
            return (_failure(f"it ended badly: {_how(work.program)}"),), None
        left = e0_from_archive(work.left.app, base_image=environment.base_image)
        return tuple(_missing(self.given.scenario.references.outputs, left)), left


def _no_judge(image: str, environment: Environment) -> Images:
    return Images(image, "", environment.recipe.services)


def _how(program: Any) -> str:
    if program is None:
        return "the services did not come up"
    return f"{program.end}, exit code {program.exit_code}, {program.output[-TAIL:]}"


def _missing(outputs: Sequence[str], left: E0) -> list[Problem]:
    there = {file.path for file in left.files if file.type == "file"}
    return [_failure(f"it left no file {path}") for path in outputs if path not in there]


def _failure(text: str) -> Problem:
    return Problem(Component.SOLUTION, f"The script was run: {text}.", "session")


def _differs(file: E0File, before: E0File | None) -> bool:
    if before is None:
        return file.type == "file"
    return (file.type, file.sha256, file.content) != (before.type, before.sha256, before.content)
