"""One trial: solution container, artifacts, verifier container (architecture, section 6)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from facet_dagster.domain.archive import Member, pack_members, unpack
from facet_dagster.domain.environment import WORKDIR
from facet_dagster.domain.facts import CheckFact, Fact, TrialFact
from facet_dagster.domain.task import CollectCommand
from facet_dagster.domain.trial import CheckResult, End, ExecResult, Limits, Trial, TrialKind, read_checks
from facet_dagster.ports import Put, Run, Sandbox
from facet_dagster.stages.task import live
from facet_dagster.stages.task.images import Images
from facet_dagster.stages.task.package import AGENT, TaskLimits

LOGS = "/logs/verifier"
SOLVE = ("bash", "/solution/solve.sh")
TWICE = ("bash", "-c", "bash /solution/solve.sh && bash /solution/solve.sh")
ENV = {"HOME": f"/home/{AGENT}", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
JUDGE_ENV = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
RESULT_CAP = 256 * 1024


@dataclass(frozen=True)
class Conditions:
    """How a trial differs from a plain one: variables, cpus and a share of the memory for both containers, a solution
    that runs ``twice``, the checks in another order (``shuffle``)."""

    name: str = "plain"
    env: Mapping[str, str] = field(default_factory=dict)
    cpus: float | None = None
    memory: float = 1.0
    twice: bool = False
    shuffle: int | None = None


PLAIN = Conditions()
_NOTHING = ExecResult(end=End.EXITED, exit_code=0, output="", seconds=0.0)


@dataclass(frozen=True)
class Left:
    """What the work left: archives of /app and, of a task with services, of /logs/artifacts; None when absent."""

    app: bytes | None
    artifacts: bytes | None = None


@dataclass(frozen=True)
class Work:
    """How the work went. ``program`` is None when the services, if any, did not come up."""

    program: ExecResult | None
    left: Left
    services: ExecResult | None = None
    collected: tuple[ExecResult, ...] = ()


@dataclass(frozen=True)
class Judgement:
    """What the verifier said. ``reward`` is None when it wrote no valid one."""

    program: ExecResult
    reward: int | None
    checks: tuple[CheckResult, ...]

    @property
    def failed(self) -> tuple[str, ...]:
        """Ids of the checks that did not pass."""
        return tuple(check.id for check in self.checks if check.status != "pass")


@dataclass(frozen=True)
class Trials:
    """Trials of one draft in fresh containers. Programs that fail are data; every method raises SandboxError.

    ``subject`` and ``attempt`` (the repair round) become labels; ``collect`` are the commands that look at services.
    """

    images: Images
    sandbox: Sandbox
    limits: TaskLimits
    subject: str
    collect: tuple[CollectCommand, ...] = ()
    attempt: int = 0

    def run(self, kind: TrialKind, solve_sh: bytes, conditions: Conditions = PLAIN) -> Trial:
        """Do the work in one container, judge what it left in another. A baseline does nothing, on the same path."""
        return self.judged(kind, self.timed(solve_sh if kind is TrialKind.ORACLE else None, conditions), conditions)

    def timed(self, solve_sh: bytes | None, conditions: Conditions = PLAIN) -> tuple[Work, float]:
        """``work``, and how many seconds it took."""
        began = time.monotonic()
        return self.work(solve_sh, conditions), time.monotonic() - began

    def judged(self, kind: TrialKind, done: tuple[Work, float], conditions: Conditions = PLAIN) -> Trial:
        """The whole trial, of which the work is ``done``."""
        began = time.monotonic()
        work, spent = done
        found = self.judge(work.left, conditions)
        return Trial(
            kind=kind,
            reward=found.reward,
            checks=found.checks,
            solution=work.program,
            verifier=found.program,
            seconds=round(spent + time.monotonic() - began, 3),
            services=work.services,
            collected=work.collected,
        )

    def work(self, solve_sh: bytes | None, conditions: Conditions = PLAIN) -> Work:
        """Run a solution, or nothing, in the environment.

        Where nothing runs, and no services, /app stays as the image holds it: what is known of it needs no container.
        """
        if solve_sh is None and self.images.e0 is not None and not self.images.services:
            return Work(_NOTHING, Left(self.images.e0))
        run = self._work(solve_sh, conditions)
        if self.images.services:
            done = live.work(run, self.images.services, self.collect, self.sandbox)
            return Work(done.program, Left(done.app, done.artifacts), done.services, done.collected)
        outcome = self.sandbox.run(run)
        return Work(outcome.program, Left(outcome.collected.get(WORKDIR)))

    def judge(self, left: Left, conditions: Conditions = PLAIN) -> Judgement:
        """Run the verifier on what was left."""
        outcome = self.sandbox.run(self._judgement(left, conditions))
        return Judgement(outcome.program, *read_result(outcome.collected.get(LOGS)))

    def _work(self, solve_sh: bytes | None, conditions: Conditions) -> Run:
        argv = ("true",) if solve_sh is None else TWICE if conditions.twice else SOLVE
        return Run(
            image=self.images.environment,
            argv=argv,
            subject=self.subject,
            user=AGENT,
            workdir=WORKDIR,
            env={**ENV, **conditions.env},
            put=() if solve_sh is None else solution_put(solve_sh),
            collect=(WORKDIR,),
            limits=self._limits(self.limits.solution_seconds, conditions),
            attempt=self.attempt,
        )

    def _judgement(self, left: Left, conditions: Conditions) -> Run:
        shuffle = {} if conditions.shuffle is None else {"FACET_SHUFFLE": str(conditions.shuffle)}
        return Run(
            image=self.images.verifier,
            argv=("bash", "/tests/test.sh"),
            subject=self.subject,
            user="root",
            workdir=WORKDIR,
            env={**JUDGE_ENV, **conditions.env, **shuffle},
            put=(*_artifacts(left), *self.tests()),
            outbox=(LOGS,),
            limits=self._limits(self.limits.verifier_seconds, conditions),
            attempt=self.attempt,
        )

    def tests(self) -> tuple[Put, ...]:
        """What the verifier's image lacks of /tests."""
        return () if self.images.tests is None else (Put("/tests", self.images.tests),)

    def _limits(self, seconds: float, conditions: Conditions) -> Limits:
        limits = self.limits.container(seconds)
        memory, cpus = int(limits.memory * conditions.memory), conditions.cpus or limits.cpus
        return limits.model_copy(update={"memory": memory, "cpus": cpus})


def solution_put(solve_sh: bytes) -> tuple[Put, ...]:
    """Owned by root and not writable: the script cannot change itself."""
    members = {"solution": Member("dir", 0o755), "solution/solve.sh": Member("file", 0o555, data=solve_sh)}
    return (Put("/", pack_members(members)),)


def _artifacts(left: Left) -> tuple[Put, ...]:
    """The work directory as it was left, empty when the program removed it, and what was collected."""
    given = (Put("/", left.app or pack_members({WORKDIR.strip("/"): Member("dir", 0o755)})),)
    return (*given, Put(live.ARTIFACTS, live.inside(left.artifacts))) if left.artifacts else given


def read_result(archive: bytes | None) -> tuple[int | None, tuple[CheckResult, ...]]:
    """Reward and checks from an archive of /logs/verifier.

    The reward counts only as ``0`` or ``1`` beside a well-formed checks.json that agrees with it;
    otherwise it is None. A lone 0 is the sign of a runner that died.
    """
    members = unpack(archive) if archive else {}
    checks = read_checks(_content(members, "checks.json"))
    text = _content(members, "reward.txt")
    reward = {b"0": 0, b"1": 1}.get(text.rstrip(b"\n")) if text is not None else None
    agrees = bool(checks) and reward == int(all(check.status == "pass" for check in checks))
    return (reward if agrees else None), checks


def _content(members: dict[str, Member], name: str) -> bytes | None:
    member = members.get(f"verifier/{name}")
    usable = member is not None and member.type == "file" and member.size <= RESULT_CAP
    return member.data if member is not None and usable else None


def trial_facts(trial: Trial, *, stage: str, key: str, draft: str, round: int, repeat: int) -> list[Fact]:  # noqa: A002
    """Rows for the ledger; ``draft`` is the draft's digest."""
    fact = TrialFact(
        stage=stage,
        key=key,
        kind=str(trial.kind),
        draft=draft,
        round=round,
        repeat=repeat,
        reward=trial.reward,
        exit_code=trial.solution.exit_code if trial.solution else None,
        seconds=trial.seconds,
    )
    rows = [
        CheckFact(trial=fact.fact_id, check=c.id, requirement=c.requirement, status=c.status, message=c.message)
        for c in trial.checks
    ]
    return [fact, *rows]
