"""Full validation of a draft: rules, baseline, oracle (paper, section 3.4), and why it failed, by rules first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

from facet_dagster.domain.environment import Environment
from facet_dagster.domain.facts import Fact
from facet_dagster.domain.findings import KnownState
from facet_dagster.domain.ids import digest
from facet_dagster.domain.outcome import Component, Reason, Rejection, reject
from facet_dagster.domain.scenario import Scenario
from facet_dagster.domain.task import Draft, Task, Validation
from facet_dagster.domain.trial import End, ExecResult, Trial, TrialKind
from facet_dagster.errors import InvariantError
from facet_dagster.funnel import Outcome
from facet_dagster.ports import ArtifactStore, Sandbox
from facet_dagster.stages.task.images import images
from facet_dagster.stages.task.known import Rejudged, judge_again, rejudged_facts
from facet_dagster.stages.task.lint import Problem, lint_on, lint_remarks
from facet_dagster.stages.task.package import TaskLimits
from facet_dagster.stages.task.render import script
from facet_dagster.stages.task.trial import Judgement, Left, Trials, trial_facts

STAGE = "first_validation"
TAIL = 2_000
SHOWN_STATES = 8
# An exception of these kinds is a slip in the verifier's own code, whatever the work looks like.
OWN_ERRORS = ("NameError", "UnboundLocalError", "ImportError", "ModuleNotFoundError", "SyntaxError")


def first_validation(
    draft: Draft, environment: Environment, scenario: Scenario, *, sandbox: Sandbox, trial_seconds: float
) -> Outcome:
    """Value Task, accepted whatever the verdict: a task that is not valid goes on to its repair.

    Numbers: valid (0 or 1) and checks. Raises SandboxError.
    """
    limits = TaskLimits.of(trial_seconds)
    validation, facts = validate(draft, environment, scenario, sandbox=sandbox, limits=limits, stage=STAGE)
    task = Task(
        seed=draft.seed,
        title=draft.instruction.title,
        draft=draft,
        environment=environment,
        validations=(validation,),
    )
    numbers = {"valid": int(validation.valid), "checks": len(draft.verifier.checks)}
    return Outcome(value=task, numbers=numbers, facts=tuple(facts))


def validate(
    draft: Draft,
    environment: Environment,
    scenario: Scenario,
    *,
    sandbox: Sandbox,
    limits: TaskLimits,
    stage: str,
    known: Sequence[KnownState] = (),
    store: ArtifactStore | None = None,
) -> tuple[Validation, list[Fact]]:
    """Both trials in fresh containers, unless the rules or the baseline decide before.

    The oracle's work is done beside the baseline, whose verdict is hardly ever against it; not so where services
    run, which may need the whole machine to come up in time.
    A draft that passes them must also judge the ``known`` final states, which lie in ``store``, as it should.
    """
    problems = lint_on(draft, environment, scenario)
    if problems:
        said = _lint_remarks(draft, environment, scenario, None)
        refused = Validation(round=draft.round, baseline=None, oracle=None, rejection=_policy(problems), remarks=said)
        return refused, []
    facts: list[Fact] = []
    oracle = None

    def kept(done: Trial) -> Trial:
        facts.extend(trial_facts(done, stage=stage, key=draft.seed, draft=digest(draft), round=draft.round, repeat=0))
        return done

    with trials_of(draft, environment, sandbox=sandbox, limits=limits) as bench, ThreadPoolExecutor(1) as beside:
        solve = partial(bench.timed, solve_sh(draft))
        work = solve if bench.images.services else beside.submit(solve).result
        baseline = kept(bench.run(TrialKind.BASELINE, b""))
        rejection = classify_baseline(baseline)
        if rejection is None:
            done = work()
            oracle, left = kept(bench.judged(TrialKind.ORACLE, done)), done[0].left
            rejection = classify_oracle(oracle)
        if rejection is None and known:
            again = _again(known, draft, bench, store, left)
            facts += [fact for found in again for fact in rejudged_facts(found, stage=stage, draft=draft)]
            rejection = classify_known(again)
    return (
        Validation(
            round=draft.round,
            baseline=baseline,
            oracle=oracle,
            rejection=rejection,
            remarks=(*remarks(draft, baseline), *_lint_remarks(draft, environment, scenario, oracle)),
        ),
        facts,
    )


def _again(
    known: Sequence[KnownState], draft: Draft, bench: Trials, store: ArtifactStore | None, left: Left
) -> list[Rejudged]:
    if store is None:
        raise InvariantError("Known final states cannot be judged without the store that holds them")
    return list(judge_again(known, draft, bench, store, left))


@contextmanager
def trials_of(
    draft: Draft, environment: Environment, *, sandbox: Sandbox, limits: TaskLimits, packaged: bool = False
) -> Iterator[Trials]:
    """Where the trials of a draft are done; its images are there for the block: see ``images``. Raises SandboxError."""
    with images(draft, environment, sandbox=sandbox, limits=limits, packaged=packaged) as both:
        yield Trials(both, sandbox, limits, draft.seed, draft.collect, draft.round)


def solve_sh(draft: Draft) -> bytes:
    """The solution as the package ships it."""
    return script(draft.solution.solve_sh).encode()


def remarks(draft: Draft, baseline: Trial) -> list[str]:
    """Checks whose behaviour on e0 contradicts what they declare; they do not decide the verdict."""
    invariant = {check.id: check.invariant for check in draft.verifier.checks}
    found = []
    for check in baseline.checks:
        if check.status == "pass" and not invariant.get(check.id, False):
            found.append(f"Check {check.id} passes on the untouched initial state but is not marked invariant.")
        if check.status in ("fail", "error") and invariant.get(check.id, False):
            found.append(f"Check {check.id} is marked invariant but does not pass on the initial state.")
    return found


def _lint_remarks(draft: Draft, environment: Environment, scenario: Scenario, oracle: Trial | None) -> tuple[str, ...]:
    passed = frozenset(check.id for check in oracle.checks if check.status == "pass") if oracle else frozenset()
    return tuple(f"{found.rule}: {found.text}" for found in lint_remarks(draft, environment, scenario, passed))[:40]


def _policy(problems: Sequence[Problem]) -> Rejection:
    blamed = [problem.component for problem in problems]
    texts = [f"{problem.component}: {problem.text}" for problem in problems]
    return reject(Reason.TASK_POLICY, texts[0], component=blamed[0], problems=texts[:40])


def classify_baseline(trial: Trial) -> Rejection | None:
    """None when the verifier judged the untouched state and refused it."""
    if dead := classify_services(trial):
        return dead
    if trial.solution is not None and not trial.solution.ok:
        return reject(
            Reason.TASK_SOLUTION_CRASHED,
            "A program that does nothing fails in the environment.",
            component=Component.ENVIRONMENT,
            **ended(trial.solution),
        )
    broken = classify_verifier(trial)
    if broken is None and trial.reward == 1:
        return reject(
            Reason.TASK_BASELINE_PASSED,
            "The verifier accepts the untouched initial state.",
            passed=[check.id for check in trial.checks],
        )
    return broken


def classify_oracle(trial: Trial) -> Rejection | None:
    """None when solve.sh ended well and the verifier accepted what it left."""
    if dead := classify_services(trial):
        return dead
    program = trial.solution
    if program is not None and program.never_started:
        return reject(
            Reason.TASK_SOLUTION_CRASHED,
            "No program can start in the environment.",
            component=Component.ENVIRONMENT,
            **ended(program),
        )
    if program is not None and not program.ok:
        return _program_rejection(program, "solve.sh", Component.SOLUTION, failing(trial))
    broken = classify_verifier(trial)
    if broken is not None or trial.reward == 1:
        return broken
    own = [check for check in trial.checks if check.status == "error" and check.message.startswith(OWN_ERRORS)]
    if own:
        return reject(
            Reason.TASK_VERIFIER_BROKEN,
            f"Check {own[0].id} raises {own[0].message[:160]}",
            checks=failing(trial),
        )
    counted = [check for check in trial.checks if check.status in ("fail", "error")]
    return reject(
        Reason.TASK_ORACLE_FAILED,
        f"{len(counted)} of {len(trial.checks)} checks refuse what solve.sh left.",
        checks=failing(trial),
        **(ended(program) if program else {}),
    )


def classify_known(again: Sequence[Rejudged]) -> Rejection | None:
    """None when every known state is judged as it should be. A refusal of right work goes first, as in certificates."""
    wrong = sorted((found for found in again if not found.ok), key=lambda found: -found.state.wanted)
    if not wrong:
        return None
    first = wrong[0]
    said = "is refused" if first.state.wanted else "is accepted"
    return reject(
        first.state.reason,
        f"{first.name} {said}: {first.state.why}",
        component=Component.VERIFIER,
        checks=failing(first.judged) if first.state.wanted else [],
        known=[{"state": f.name, "wanted": f.state.wanted, "what": f.state.why} for f in wrong[:SHOWN_STATES]],
    )


def classify_services(trial: Trial) -> Rejection | None:
    """None when there are none, or all were healthy in time. Whatever else is the environment's fault."""
    if trial.services is None or trial.services.ok:
        return None
    last = trial.services.output.strip().splitlines()[:1]
    text = last[0][:300] if last else f"The services ended with {trial.services.end}."
    return reject(Reason.TASK_SERVICE_FAILED, text, **ended(trial.services))


def classify_verifier(trial: Trial) -> Rejection | None:
    """None when the verifier ran to its end and gave a well-formed result."""
    program = trial.verifier
    if program.end is not End.EXITED:
        return _program_rejection(program, "The verifier", Component.VERIFIER, failing(trial))
    imported = next((check for check in trial.checks if check.id == "import"), None)
    if imported is not None:
        return reject(Reason.TASK_VERIFIER_BROKEN, f"checks.py cannot be imported: {imported.message[:300]}")
    if trial.reward is None:
        return reject(Reason.TASK_VERIFIER_BROKEN, "The verifier gave no valid reward.", **ended(program))
    return None


def failing(trial: Trial | Judgement) -> list[dict[str, str]]:
    """Checks that did not pass, blocked ones last: they say nothing of their own.

    The message is ``log_tail``, which canonical digests leave out: it may show a set in any order.
    """
    unhappy = sorted((c for c in trial.checks if c.status != "pass"), key=lambda c: c.status == "blocked")
    return [
        {"id": c.id, "requirement": c.requirement, "status": c.status, "log_tail": c.message[:600]}
        for c in unhappy[:40]
    ]


def _program_rejection(program: ExecResult, name: str, component: Component, checks: list[dict[str, str]]) -> Rejection:
    reason, text = {
        End.TIMEOUT: (Reason.TASK_TIMEOUT, f"{name} ran over its time limit."),
        End.OOM: (Reason.TASK_RESOURCES, f"{name} ran out of memory."),
        End.DISK: (Reason.TASK_RESOURCES, f"{name} wrote more than the disk limit."),
        End.EXITED: (Reason.TASK_SOLUTION_CRASHED, f"{name} ended with exit code {program.exit_code}."),
    }[program.end]
    return reject(reason, text, component=component, checks=checks, **ended(program))


def ended(program: ExecResult) -> dict[str, Any]:
    """``log_tail`` is left out of canonical digests: it may hold times and paths of one machine."""
    return {"end": str(program.end), "exit_code": program.exit_code, "log_tail": program.output[-TAIL:]}
