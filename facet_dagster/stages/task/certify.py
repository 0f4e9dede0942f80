"""The basic certificate: the same verdict every time, in fresh containers, and the package that it is about."""

from __future__ import annotations

from collections.abc import Sequence

from facet_dagster.domain.facts import ArtifactFact, Fact
from facet_dagster.domain.ids import digest
from facet_dagster.domain.outcome import Reason, Rejection, reject
from facet_dagster.domain.scenario import Scenario
from facet_dagster.domain.skill import Skill
from facet_dagster.domain.task import Certificate, Task
from facet_dagster.domain.trial import Trial, TrialKind
from facet_dagster.errors import InvariantError
from facet_dagster.funnel import Outcome
from facet_dagster.ports import ArtifactStore, Sandbox
from facet_dagster.stages.task.images import e0_archive, environment_image
from facet_dagster.stages.task.package import Package, TaskLimits, build_package
from facet_dagster.stages.task.trial import trial_facts
from facet_dagster.stages.task.validate import solve_sh, trials_of

STAGE = "certificate"
LEVEL = "basic"
ORACLES = 3
BASELINES = 2


def certify(
    task: Task,
    scenario: Scenario,
    skills: Sequence[Skill],
    *,
    sandbox: Sandbox,
    store: ArtifactStore,
    trial_seconds: float,
) -> Outcome:
    """Value Certificate: oracle 3 of 3, baseline 0 of 2, beside the trials of the validation.

    The package's archive goes to ``store``; its sha256 is ``Certificate.package``. Any disagreement is a
    rejection TASK_FLAKY. ``skills`` are the seed's, for their names and licences.
    """
    if not task.valid:
        raise InvariantError(f"Task {task.seed} is not valid and cannot be certified")
    environment, limits = task.environment, TaskLimits.of(trial_seconds)
    trials, facts = _trials(task, sandbox, limits)
    rewards = {kind: tuple(t.reward for t in trials if t.kind is kind) for kind in TrialKind}
    rejection = _disagreement(trials)
    numbers = {
        "oracle": sum(r == 1 for r in rewards[TrialKind.ORACLE]),
        "baseline": sum(r == 0 for r in rewards[TrialKind.BASELINE]),
        "checks": len(task.draft.verifier.checks),
    }
    if rejection is not None:
        return Outcome(rejection=rejection, numbers=numbers, facts=tuple(facts))
    with environment_image(environment, sandbox, limits) as image:
        files = e0_archive(image, sandbox)
    package = build_package(
        task.draft,
        environment,
        scenario,
        skills,
        e0_archive=files,
        limits=limits,
        level=LEVEL,
    )
    stored = _store(package, store)
    certificate = Certificate(
        seed=task.seed,
        level=LEVEL,
        oracle=tuple(r for r in rewards[TrialKind.ORACLE] if r is not None),
        baseline=tuple(r for r in rewards[TrialKind.BASELINE] if r is not None),
        image=task.draft.image,
        base_image=environment.base_image,
        standin=environment.standin,
        package=stored.sha256,
    )
    return Outcome(value=certificate, numbers=numbers, facts=(*facts, stored))


def _trials(task: Task, sandbox: Sandbox, limits: TaskLimits) -> tuple[list[Trial], list[Fact]]:
    kinds = [TrialKind.BASELINE] * BASELINES + [TrialKind.ORACLE] * ORACLES
    trials: list[Trial] = []
    facts: list[Fact] = []
    draft = task.draft
    with trials_of(draft, task.environment, sandbox=sandbox, limits=limits, packaged=True) as bench:
        for kind in kinds:
            repeat = sum(trial.kind is kind for trial in trials)
            trials.append(bench.run(kind, solve_sh(draft)))
            facts += trial_facts(
                trials[-1], stage=STAGE, key=draft.seed, draft=digest(draft), round=draft.round, repeat=repeat
            )
    return trials, facts


def _disagreement(trials: Sequence[Trial]) -> Rejection | None:
    wanted = {TrialKind.BASELINE: 0, TrialKind.ORACLE: 1}
    wrong = [t for t in trials if t.reward != wanted[t.kind] or not (t.solution and t.solution.ok)]
    unsteady = sorted({ident for kind in TrialKind for ident in _unsteady([t for t in trials if t.kind is kind])})
    if not wrong and not unsteady:
        return None
    text = f"{len(wrong)} of {len(trials)} repeated trials disagree with the validation"
    if unsteady:
        text += f"; not the same each time: {', '.join(unsteady[:10])}"
    return reject(
        Reason.TASK_FLAKY,
        f"{text}.",
        rewards=[[str(t.kind), t.reward] for t in trials],
        checks=unsteady,
        failed=[[c.id, c.status, c.message[:300]] for t in wrong for c in t.checks if c.status != "pass"][:20],
    )


def _unsteady(trials: Sequence[Trial]) -> set[str]:
    """Checks with more than one status over trials of one kind."""
    seen: dict[str, set[str]] = {}
    for trial in trials:
        for check in trial.checks:
            seen.setdefault(check.id, set()).add(check.status)
    return {ident for ident, statuses in seen.items() if len(statuses) > 1}


def _store(package: Package, store: ArtifactStore) -> ArtifactFact:
    data = package.tar()
    return ArtifactFact(sha256=store.put(data), kind="package", size=len(data))
