"""A second solution, written from what an agent sees alone: does the verifier accept right work in another form?

A refusal is triaged, by rules first: the solver's own fault is asked for once more, a verifier that demands what is
written nowhere is a rejection of the task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from facet_dagster.domain.archive import unpack
from facet_dagster.domain.environment import WORKDIR
from facet_dagster.domain.facts import AttemptFact, Fact
from facet_dagster.domain.findings import Probe
from facet_dagster.domain.outcome import Component, Reason, Rejection, reject
from facet_dagster.domain.second import SecondReply, TriageReply, other_language, quoted, solvers_fault
from facet_dagster.domain.task import Task
from facet_dagster.domain.trial import CheckResult
from facet_dagster.errors import InvariantError, MalformedReply
from facet_dagster.ports import LLM, ArtifactStore
from facet_dagster.stages.task.draft import keep
from facet_dagster.stages.task.render import body, markdown, rules_text, script
from facet_dagster.stages.task.sources import used_sources, wrong_outputs
from facet_dagster.stages.task.trial import Judgement, Left, Trials, Work

STAGE = "certificate"
CALL, TRIAGE = "second_solution", "triage_refusal"
TAIL = 2_000
SHOWN_CHECKS = 6
SHOWN_SCRIPT = 6_000


@dataclass(frozen=True)
class Answered:
    """One second solution and what came of it. ``judged`` is None when its program failed."""

    reply: SecondReply
    work: Work
    judged: Judgement | None
    missing: tuple[str, ...]

    @property
    def accepted(self) -> bool:
        return self.judged is not None and self.judged.reward == 1

    def probe(self, ident: str) -> Probe:
        judged, program = self.judged, self.work.program
        ran = [done.seconds for done in (program, judged.program if judged else None) if done]
        return Probe(
            id=ident,
            kind="second",
            what=f"{self.reply.language}: {self.reply.style}",
            wanted=1,
            reward=judged.reward if judged else None,
            failed=judged.failed if judged else (),
            crashed=judged is None,
            seconds=round(sum(ran), 3),
        )


@dataclass
class Second:
    """All that was asked and found. ``open`` says why it is not known whether the verifier is fair.

    ``right`` is what a solution left that the verifier refuses though nothing that is written speaks against it.
    """

    probes: list[Probe] = field(default_factory=list)
    replies: list[SecondReply] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    rejection: Rejection | None = None
    open: str = ""
    right: Left | None = None


def second(
    task: Task, *, llm: LLM, trials: Trials, store: ArtifactStore | None, kept: SecondReply | None = None
) -> Second:
    """Ask for a second solution and try it; when it is the solver's fault, once more.

    ``kept`` was written for an earlier version of the task: where the verifier accepts it nothing is asked.
    Raises MalformedReply for a first reply, or a triage, that does not fit, and SandboxError.
    """
    found, again = Second(), None
    if kept is not None:
        answer = try_second(kept, task.draft.instruction.outputs, trials)
        if answer.accepted:
            return Second(probes=[answer.probe("S1")], replies=[kept])
    for attempt in (0, 1):
        try:
            answer = _answer(task, again, attempt, found, llm, trials, store)
        except MalformedReply:
            if attempt == 0:
                raise
            return found
        if answer.accepted:
            found.open = ""
            return found
        fault, found.rejection = _triage(task, answer, attempt, found, llm, store)
        if found.rejection is not None:
            strict = found.rejection.reason is Reason.TASK_OVER_STRICT
            if strict and found.rejection.component is Component.VERIFIER:
                found.right = answer.work.left
            return found
        found.open = f"No second solution was accepted. The last one was at fault itself: {fault}"
        last = found.probes[-1]
        found.probes[-1] = last.model_copy(update={"crashed": True, "what": f"{last.what} {fault}"})
        again = _seen_by_solver(task, answer)
    return found


def _answer(
    task: Task,
    again: dict[str, Any] | None,
    attempt: int,
    found: Second,
    llm: LLM,
    trials: Trials,
    store: ArtifactStore | None,
) -> Answered:
    language = other_language(task.draft.solution.solve_sh)
    variables = {**agents_view(task), "language": language, "again": again}
    reply = llm.ask(CALL, variables, SecondReply, subject=task.seed, attempt=attempt)
    answer = try_second(reply, task.draft.instruction.outputs, trials)
    found.replies.append(reply)
    found.probes.append(answer.probe(f"S{len(found.replies)}"))
    failed = ", ".join(found.probes[-1].failed)
    found.facts.append(
        _fact(
            task.seed,
            CALL,
            attempt,
            ok=answer.accepted,
            summary="accepted" if answer.accepted else f"Not passed: {failed}",
            kept=keep(reply, store),
        )
    )
    return answer


def agents_view(task: Task) -> dict[str, Any]:
    """What an agent can see: no specification, and no row that is marked as telling readings apart."""
    environment, draft = task.environment, task.draft
    if environment.e0 is None:
        raise InvariantError(f"Environment of seed {task.seed} has no captured e0")
    rules_file = f"{WORKDIR}/{environment.recipe.rules_file}"
    plain = tuple(file.model_copy(update={"rows": {}}) for file in environment.e0.files)
    return {
        "instruction": markdown(draft.instruction),
        "rules_file": rules_file,
        "rules": rules_text(environment),
        "e0": environment.e0.model_copy(update={"files": plain}).view(leave_out=rules_file),
    }


def try_second(reply: SecondReply, outputs: Sequence[str], trials: Trials) -> Answered:
    """Run it, and judge what it left if it ended well. Raises SandboxError."""
    work = trials.work(script(reply.solve_sh).encode())
    well = work.program is not None and work.program.ok
    return Answered(reply, work, trials.judge(work.left) if well else None, _missing(outputs, work.left))


def _missing(outputs: Sequence[str], left: Left) -> tuple[str, ...]:
    there = {f"/{path}" for path, member in unpack(left.app).items() if member.type != "dir"} if left.app else set()
    return tuple(path for path in outputs if path not in there)


def _triage(
    task: Task, answer: Answered, attempt: int, found: Second, llm: LLM, store: ArtifactStore | None
) -> tuple[str, Rejection | None]:
    """Why it is the solver's fault, or the rejection of the task.

    Many checks that fail together are the solver's fault at first; a solver that stumbles twice is heard.
    """
    judged = answer.judged
    checks = judged.checks if judged else ()
    fault = solvers_fault(answer.work.program, answer.missing, task.draft.instruction.outputs, checks)
    if fault is not None and (fault.certain or attempt == 0):
        return fault.text, None
    if judged is not None and judged.reward is None:
        text = "The verifier gives no valid reward for a second solution."
        return "", reject(Reason.TASK_VERIFIER_BROKEN, text, log_tail=judged.program.output[-TAIL:])
    reply = llm.ask(TRIAGE, triage_variables(task, answer), TriageReply, subject=task.seed, attempt=attempt)
    blamed = blame(reply, task)
    summary = f"{reply.fault}, so {blamed or 'solver'}: {reply.why}"
    found.facts.append(_fact(task.seed, TRIAGE, attempt, ok=blamed is None, summary=summary, kept=keep(reply, store)))
    if blamed is None:
        return f"{reply.why} It is demanded: {reply.quote}", None
    return "", _over_strict(blamed, reply, answer, keep(answer.reply, store))


def blame(reply: TriageReply, task: Task) -> Component | None:
    """The component at fault, None for the solver. Its fault counts only where the quote is really written."""
    demanded = quoted(reply.quote, markdown(task.draft.instruction), rules_text(task.environment))
    if reply.fault == "solver" and demanded:
        return None
    return Component.INSTRUCTION if reply.fault == "instruction" else Component.VERIFIER


def _over_strict(blamed: Component, reply: TriageReply, answer: Answered, artifact: str) -> Rejection:
    refusing = _refusing(answer)
    names = ", ".join(check.id for check in refusing)
    return reject(
        Reason.TASK_OVER_STRICT,
        f"Checks {names} refuse a second solution, and nothing that they demand of it is written: {reply.why}",
        component=blamed,
        checks=[_shown(check) for check in refusing],
        said=reply.model_dump(mode="json"),
        second_solution=artifact,
        second_script=script(answer.reply.solve_sh)[:SHOWN_SCRIPT],
    )


def _refusing(answer: Answered) -> list[CheckResult]:
    checks = answer.judged.checks if answer.judged else ()
    return [check for check in checks if check.status in ("fail", "error")][:SHOWN_CHECKS]


def _shown(check: CheckResult) -> dict[str, str]:
    return {"id": check.id, "requirement": check.requirement, "status": check.status, "log_tail": check.message[:600]}


def triage_variables(task: Task, answer: Answered) -> dict[str, Any]:
    """What a referee sees: what the agent saw, its work, and the checks of the task's verifier that refuse it."""
    written = {check.id: check for check in task.draft.verifier.checks}
    refusing = [check for check in _refusing(answer) if check.id in written]
    sources = used_sources([check.id for check in refusing], task.draft.verifier)
    return {
        **agents_view(task),
        "solve_sh": script(answer.reply.solve_sh),
        "checks": [
            {**_shown(check), "title": written[check.id].title, "body": body(written[check.id])} for check in refusing
        ],
        "helpers": "\n\n".join(sources.values()),
    }


def _seen_by_solver(task: Task, answer: Answered) -> dict[str, Any]:
    """What the solver may know of its failure: nothing of what the verifier expects."""
    draft, program = task.draft, answer.work.program
    outputs, judged = draft.instruction.outputs, answer.judged
    wrong = wrong_outputs(judged.failed, outputs, draft.verifier) if judged else ()
    ended = program and {"end": str(program.end), "exit_code": program.exit_code, "log_tail": program.output[-TAIL:]}
    return {
        "program": ended or {},
        "missing": list(answer.missing),
        "wrong": [path for path in wrong if path not in answer.missing],
        "solve_sh": script(answer.reply.solve_sh),
    }


def _fact(seed: str, call: str, attempt: int, *, ok: bool, summary: str, kept: str) -> AttemptFact:
    return AttemptFact(
        stage=STAGE, key=seed, kind=call, round=attempt, ok=ok, component=call, summary=summary[:1000], artifact=kept
    )
