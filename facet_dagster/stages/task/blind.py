"""A blind verifier, written from what an agent sees: two solutions and two verifiers must agree.

It knows neither the task's verifier nor its solution. Where it refuses work that the task's verifier accepts, one of
the two is wrong, or the instruction can be read in two ways; a triage says which, as for second solutions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from facet_dagster.domain.archive import pack
from facet_dagster.domain.facts import ArtifactFact, AttemptFact, Fact
from facet_dagster.domain.findings import Probe
from facet_dagster.domain.ids import to_json
from facet_dagster.domain.outcome import Component, Reason, Rejection, reject
from facet_dagster.domain.scenario import Scenario
from facet_dagster.domain.second import SecondReply, TriageReply, other_language
from facet_dagster.domain.task import Task, VerifierReply
from facet_dagster.errors import MalformedReply
from facet_dagster.ports import LLM, ArtifactStore
from facet_dagster.prompts import version
from facet_dagster.stages.task.draft import keep
from facet_dagster.stages.task.images import e0_archive, shared_verifier
from facet_dagster.stages.task.lint import Problem, lint_verifier
from facet_dagster.stages.task.package import verifier_context
from facet_dagster.stages.task.render import script
from facet_dagster.stages.task.second import TRIAGE, Answered, agents_view, blame, triage_variables
from facet_dagster.stages.task.trial import Judgement, Trials
from facet_dagster.stages.task.validate import failing

STAGE = "certificate"
CALL = "blind_verifier"
BLIND_VERSION = f"1-{version(CALL)}"
SOLUTION = "solution"


@dataclass
class Blind:
    """All that was asked and found. ``open`` says why two verifiers could not be compared.

    ``reply`` is the verifier where it was never at fault itself.
    """

    probes: list[Probe] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    rejection: Rejection | None = None
    open: str = ""
    reply: VerifierReply | None = None


def blind(
    task: Task,
    scenario: Scenario,
    others: Mapping[str, SecondReply],
    *,
    llm: LLM,
    trials: Trials,
    store: ArtifactStore,
) -> Blind:
    """Ask for another verifier and let it judge the solution and ``others``, which were accepted.

    Raises MalformedReply for a first reply, or a triage, that does not fit, and SandboxError.
    """
    found = Blind()
    if task.draft.collect:
        found.open = "No blind verifier was asked for: it cannot know what is collected from live services."
        return found
    reply, problems = _written(task, scenario, found, llm, store)
    if problems:
        found.open = f"The blind verifier cannot be used: {problems[0].text}"
        return found
    with _judges(task, reply, trials) as judges:
        if why := _blunt(task, judges):
            found.open = why
            return found
        for name, answer in _answers(task, others, trials, judges):
            found.probes.append(_probe(name, answer))
            if answer.accepted:
                continue
            fault, found.rejection = _triage(task, reply, answer, found, llm, store)
            if found.rejection is not None:
                return found
            found.open = f"The blind verifier was at fault itself: {fault}"
            last = found.probes[-1]
            found.probes[-1] = last.model_copy(update={"crashed": True, "what": f"{last.what}. {fault}"})
    if found.open:  # nothing that this verifier said counts
        found.probes = [probe.model_copy(update={"crashed": True}) for probe in found.probes]
    else:
        found.reply = reply
        data = to_json(reply).encode()
        found.facts.append(ArtifactFact(sha256=store.put(data), kind=CALL, size=len(data)))
    return found


def try_blind(task: Task, reply: VerifierReply, others: Mapping[str, SecondReply], trials: Trials) -> tuple[Probe, ...]:
    """The verdicts of a blind verifier that was kept. Raises SandboxError."""
    with _judges(task, reply, trials) as judges:
        return tuple(_probe(name, answer) for name, answer in _answers(task, others, trials, judges))


def _written(
    task: Task, scenario: Scenario, found: Blind, llm: LLM, store: ArtifactStore
) -> tuple[VerifierReply, tuple[Problem, ...]]:
    """The verifier and the problems that it still has when it was asked for twice."""
    variables = {**agents_view(task), "outputs": list(task.draft.instruction.outputs), "problems": [], "previous": None}
    reply = llm.ask(CALL, variables, VerifierReply, subject=task.seed)
    problems = _problems(reply, task, scenario)
    found.facts.append(_fact(task.seed, CALL, 0, ok=not problems, summary=_texts(problems), kept=keep(reply, store)))
    if not problems:
        return reply, ()
    again = {
        **variables,
        "problems": [{"log_tail": p.text} for p in problems],
        "previous": reply.model_dump(mode="json"),
    }
    try:
        other = llm.ask(CALL, again, VerifierReply, subject=task.seed, attempt=1)
    except MalformedReply:
        return reply, problems
    left = _problems(other, task, scenario)
    found.facts.append(_fact(task.seed, CALL, 1, ok=not left, summary=_texts(left), kept=keep(other, store)))
    return other, left


def _problems(reply: VerifierReply, task: Task, scenario: Scenario) -> tuple[Problem, ...]:
    """It does not know the requirements, so that its join with them says nothing."""
    found = lint_verifier(reply, scenario, task.draft.instruction)
    return tuple(problem for problem in found if problem.rule not in ("requirement-join", "few-checks"))


def _texts(problems: tuple[Problem, ...]) -> str:
    return " ".join(problem.text for problem in problems)


@contextmanager
def _judges(task: Task, reply: VerifierReply, trials: Trials) -> Iterator[Trials]:
    """Trials of the same task that are judged by ``reply``."""
    environment = task.environment
    e0 = e0_archive(trials.images.environment, trials.sandbox)
    tests = verifier_context(task.draft.model_copy(update={"verifier": reply}), e0, environment.base_image)
    packed = pack(tests.files, executable=tests.executable)
    with shared_verifier(environment.base_image, trials.subject, trials.sandbox, trials.limits) as image:
        yield replace(trials, images=replace(trials.images, verifier=image, tests=packed, e0=e0))


def _blunt(task: Task, judges: Trials) -> str:
    """Why its verdicts say nothing: it must refuse the untouched state."""
    judged = judges.judge(judges.work(None).left)
    if judged.reward == 0:
        return ""
    what = "accepts the untouched initial state" if judged.reward == 1 else "gives no valid reward"
    return f"The blind verifier of {task.seed} {what}."


def _answers(
    task: Task, others: Mapping[str, SecondReply], trials: Trials, judges: Trials
) -> Iterator[tuple[str, Answered]]:
    solve_sh = task.draft.solution.solve_sh
    language = "python" if other_language(solve_sh) == "shell" else "shell"
    own = SecondReply(language=language, style="the reference solution", solve_sh=solve_sh)
    for name, reply in {SOLUTION: own, **others}.items():
        yield name, _answer(reply, trials, judges)


def _answer(reply: SecondReply, trials: Trials, judges: Trials) -> Answered:
    work = trials.work(script(reply.solve_sh).encode())
    well = work.program is not None and work.program.ok
    return Answered(reply, work, judges.judge(work.left) if well else None, ())


def _probe(name: str, answer: Answered) -> Probe:
    what = f"{answer.reply.style}, judged by a verifier written from the instruction alone"
    update = {"id": f"blind/{name}", "kind": "blind", "what": what}
    return answer.probe("").model_copy(update=update)


def _triage(
    task: Task, reply: VerifierReply, answer: Answered, found: Blind, llm: LLM, store: ArtifactStore
) -> tuple[str, Rejection | None]:
    """Why it is the blind verifier's fault, or the rejection of the task."""
    judged = answer.judged
    if judged is None or judged.reward is None:
        return "the solution failed, or no valid reward was given.", None
    seen = task.model_copy(update={"draft": task.draft.model_copy(update={"verifier": reply})})
    attempt = len(found.probes) - 1
    said = llm.ask(TRIAGE, triage_variables(seen, answer), TriageReply, subject=task.seed, attempt=attempt)
    blamed = blame(said, task)
    summary = f"{said.fault}: {said.why}"
    ok = blamed is Component.VERIFIER
    found.facts.append(_fact(task.seed, TRIAGE, 10 + attempt, ok=ok, summary=summary, kept=keep(said, store)))
    if ok:
        return said.why, None
    return "", _disagreement(blamed, said, answer, judged)


def _disagreement(blamed: Component | None, said: TriageReply, answer: Answered, judged: Judgement) -> Rejection:
    """Work that breaks what is written is accepted by the task's verifier, which is blamed; or it is open."""
    names = ", ".join(judged.failed[:6])
    if blamed is Component.INSTRUCTION:
        text = f"Two verifiers read the instruction in two ways ({names} of the blind one refuse): {said.why}"
    else:
        text = f"The verifier accepts work that breaks what is written ({names} of a blind one refuse): {said.why}"
    return reject(
        Reason.TASK_VERIFIERS_DISAGREE,
        text[:1000],
        component=blamed or Component.VERIFIER,
        work=answer.reply.style,
        quote=said.quote,
        checks=failing(judged)[:6],
        said=said.model_dump(mode="json"),
    )


def _fact(seed: str, call: str, attempt: int, *, ok: bool, summary: str, kept: str) -> AttemptFact:
    return AttemptFact(
        stage=STAGE, key=seed, kind=call, round=attempt, ok=ok, component=call, summary=summary[:1000], artifact=kept
    )
