"""What a certificate finds goes to repair: certify, repair, validate, certify again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date

from facet_dagster.domain.facts import AttemptFact, Fact
from facet_dagster.domain.outcome import Rejection
from facet_dagster.domain.scenario import Scenario
from facet_dagster.domain.skill import Skill
from facet_dagster.domain.task import Certificate, Level, Task
from facet_dagster.errors import MalformedReply
from facet_dagster.funnel import Outcome, malformed
from facet_dagster.ports import LLM, ArtifactStore, Sandbox
from facet_dagster.stages.task.certificate import Certified, Effort, certified
from facet_dagster.stages.task.certificate.effort import USUAL
from facet_dagster.stages.task.draft import keep
from facet_dagster.stages.task.examine import Kept
from facet_dagster.stages.task.known import with_known
from facet_dagster.stages.task.repair import Rebuild, finish

STAGE = "certificate"


@dataclass
class _Settling:
    """What is the same for every certificate of a task, and what has happened to it so far."""

    scenario: Scenario
    skills: Sequence[Skill]
    llm: LLM
    sandbox: Sandbox
    store: ArtifactStore
    trial_seconds: float
    day: date
    level: Level
    effort: Effort
    facts: list[Fact] = field(default_factory=list)

    def certified(self, task: Task) -> Certified:
        """One certificate; a reply of an examination that does not fit rejects the task as it is now."""
        try:
            done = certified(
                task,
                self.scenario,
                self.skills,
                sandbox=self.sandbox,
                store=self.store,
                trial_seconds=self.trial_seconds,
                day=self.day,
                level=self.level,
                llm=self.llm,
                effort=self.effort,
                kept=Kept.of(self.facts, self.store),
            )
        except MalformedReply as error:
            done = Certified(Outcome(rejection=malformed(error)))
        self.facts += done.outcome.facts
        return done

    def repaired(self, task: Task, rounds: int, rebuild: Rebuild | None) -> tuple[Task, Rejection | None]:
        done = finish(
            task,
            task.environment,
            self.scenario,
            llm=self.llm,
            sandbox=self.sandbox,
            trial_seconds=self.trial_seconds,
            rounds=rounds,
            rebuild=rebuild,
            store=self.store,
        )
        self.facts += done.facts
        assert isinstance(done.value, Task)
        return done.value, done.rejection


def certify_and_repair(
    task: Task,
    scenario: Scenario,
    skills: Sequence[Skill],
    *,
    llm: LLM,
    sandbox: Sandbox,
    store: ArtifactStore,
    trial_seconds: float,
    day: date,
    level: Level,
    rounds: int,
    rebuild: Rebuild | None = None,
    effort: Effort = USUAL,
) -> Outcome:
    """Value Certificate of a valid task, certified within ``rounds`` repairs, those of its validation included.

    What a certificate refuses is the last validation of the task, and is repaired like any other; then everything
    is validated and certified again, with the mutants and the second solution that still apply. ``Certificate.task``
    is the task in force: None where it is ``task``. A rejected certificate has a value too, which says how far it
    came. Numbers: those of the last certificate, and certificate_repairs. Raises SandboxError and LLMError.
    """
    at_work = _Settling(scenario, skills, llm, sandbox, store, trial_seconds, day, level, effort)
    now = task
    while True:
        done = at_work.certified(now)
        rejection = done.outcome.rejection
        if rejection is None:
            break
        now = with_known(_refused(now, rejection), done.known)
        at_work.facts.append(_finding(now, rejection, store))
        now, rejection = at_work.repaired(now, rounds, rebuild)
        if rejection is not None:
            break
    value = done.outcome.value if rejection is None else _unfinished(now, level)
    assert isinstance(value, Certificate)
    numbers = {**done.outcome.numbers, "certificate_repairs": len(now.repairs) - len(task.repairs)}
    in_force = value if now == task else value.model_copy(update={"task": now})
    return Outcome(value=in_force, rejection=rejection, numbers=numbers, facts=tuple(at_work.facts))


def _refused(task: Task, rejection: Rejection) -> Task:
    """The task with the certificate's finding as its last validation."""
    finding = task.validations[-1].model_copy(update={"rejection": rejection, "by_certificate": True})
    return task.model_copy(update={"validations": (*task.validations, finding)})


def _finding(task: Task, rejection: Rejection, store: ArtifactStore) -> AttemptFact:
    return AttemptFact(
        stage=STAGE,
        key=task.seed,
        kind="certificate",
        round=task.draft.round,
        ok=False,
        component=str(rejection.component),
        summary=f"{rejection.reason}: {rejection.message}"[:1000],
        artifact=keep(rejection, store),
    )


def _unfinished(task: Task, level: Level) -> Certificate:
    """The value of a rejected certificate: nothing is shown, and there is no package."""
    environment = task.environment
    return Certificate(
        seed=task.seed,
        level=level,
        oracle=(),
        baseline=(),
        image=task.draft.image,
        base_image=environment.base_image,
        standin=environment.standin,
    )
