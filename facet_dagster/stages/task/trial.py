"""One trial: solution container, artifacts, verifier container (architecture, section 6)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pydantic import TypeAdapter, ValidationError

from facet_dagster.domain.archive import Member, pack_members, subtree, unpack
from facet_dagster.domain.dockerfile import environment_executables, environment_files
from facet_dagster.domain.environment import WORKDIR, Environment, Service
from facet_dagster.domain.facts import CheckFact, Fact, TrialFact
from facet_dagster.domain.outcome import Value
from facet_dagster.domain.task import CollectCommand, Draft
from facet_dagster.domain.trial import CheckResult, Trial, TrialKind
from facet_dagster.errors import SandboxError
from facet_dagster.ports import BuildContext, BuildFailed, Put, Run, RunOutcome, Sandbox
from facet_dagster.stages.task import live
from facet_dagster.stages.task.package import AGENT, TaskLimits, verifier_context

LOGS = "/logs/verifier"
ENV = {"HOME": f"/home/{AGENT}", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
ARGV = {TrialKind.BASELINE: ("true",), TrialKind.ORACLE: ("bash", "/solution/solve.sh")}
RESULT_CAP = 256 * 1024
ATTEMPTS = 5


class _Entry(Value):
    """One element of checks.json."""

    id: str
    rid: str
    status: str
    message: str


_ENTRIES = TypeAdapter(list[_Entry])


def run_trial(
    kind: TrialKind,
    *,
    images: Images,
    solve_sh: bytes,
    sandbox: Sandbox,
    limits: TaskLimits,
    subject: str,
    collect: tuple[CollectCommand, ...] = (),
    attempt: int = 0,
) -> Trial:
    """Do the work in one fresh container, judge what it left in another.

    A baseline does nothing, on the same path. A program that fails, a service that does not come up or a verifier
    that says nonsense is data in the Trial. Raises SandboxError.
    """
    began = time.monotonic()
    run = replace(_work(kind, images.environment, solve_sh, limits, subject), attempt=attempt)
    work = live.work(run, images.services, collect, sandbox) if images.services else sandbox.run(run)
    judged = sandbox.run(replace(_judgement(images.verifier, _artifacts(work), limits, subject), attempt=attempt))
    reward, checks = read_result(judged.collected.get(LOGS))
    return Trial(
        kind=kind,
        reward=reward,
        checks=checks,
        solution=work.program,
        verifier=judged.program,
        seconds=round(time.monotonic() - began, 3),
        services=work.services if isinstance(work, live.LiveWork) else None,
        collected=work.collected if isinstance(work, live.LiveWork) else (),
    )


@dataclass(frozen=True)
class Images:
    """Where the work is done, beside which services, and where it is judged."""

    environment: str
    verifier: str
    services: tuple[Service, ...] = ()


@contextmanager
def images(draft: Draft, environment: Environment, *, sandbox: Sandbox, limits: TaskLimits) -> Iterator[Images]:
    """Both images of a draft. The verifier's is built from the draft's tests/ folder and removed at the end.

    Both Dockerfiles are ours, and the environment was built before, so a build that fails now is trouble
    of the machine: SandboxError.
    """
    with environment_image(environment, sandbox, limits) as work:
        context = verifier_context(draft, e0_archive(work, sandbox), environment.base_image)
        judge = ""
        try:
            with _held(lambda: _built(context, "verifier", environment.seed, sandbox, limits), sandbox) as judge:
                yield Images(work, judge, environment.recipe.services)
        finally:
            if judge:
                sandbox.remove_image(judge)


@contextmanager
def environment_image(environment: Environment, sandbox: Sandbox, limits: TaskLimits) -> Iterator[str]:
    """The environment's image, built again from its recipe when it is gone, and kept for the block.

    Raises SandboxError.
    """
    with _held(lambda: _environment_image(environment, sandbox, limits), sandbox) as image:
        yield image


@contextmanager
def _held(make: Callable[[], str], sandbox: Sandbox) -> Iterator[str]:
    """Between the building of an image and its use somebody else who shares it may remove it: then it is made anew."""
    for _ in range(ATTEMPTS):
        image = make()
        with sandbox.hold(image) as there:
            if there:
                yield image
                return
    raise SandboxError(f"Image {image} is removed again and again by somebody else on this engine", transient=True)


def _environment_image(environment: Environment, sandbox: Sandbox, limits: TaskLimits) -> str:
    if environment.image is not None and sandbox.image(environment.image) is not None:
        return environment.image
    recipe = environment.recipe
    files = environment_files(recipe, environment.manifest, environment.base_image)
    context = BuildContext(files, environment_executables(recipe))
    return _built(context, "environment", environment.seed, sandbox, limits)


def _built(context: BuildContext, what: str, subject: str, sandbox: Sandbox, limits: TaskLimits) -> str:
    built = sandbox.build(context, subject=subject, seconds=limits.build_seconds)
    if isinstance(built, BuildFailed):
        text = f"The {what} image of {subject} does not build ({built.step}): {built.log_tail[-500:]}"
        raise SandboxError(text, transient=True)
    return built.image


def e0_archive(image: str, sandbox: Sandbox) -> bytes:
    """The initial files as the image holds them. Raises SandboxError when there are none: e0 is never empty."""
    archive = sandbox.read(image, WORKDIR)
    if not archive:
        raise SandboxError(f"Image {image} has no {WORKDIR}: remove the image and run the stage again")
    return archive


def _work(kind: TrialKind, image: str, solve_sh: bytes, limits: TaskLimits, subject: str) -> Run:
    return Run(
        image=image,
        argv=ARGV[kind],
        subject=subject,
        user=AGENT,
        workdir=WORKDIR,
        env=ENV,
        put=solution_put(solve_sh) if kind is TrialKind.ORACLE else (),
        collect=(WORKDIR,),
        limits=limits.container(limits.solution_seconds),
    )


def _judgement(image: str, put: tuple[Put, ...], limits: TaskLimits, subject: str) -> Run:
    return Run(
        image=image,
        argv=("bash", "/tests/test.sh"),
        subject=subject,
        user="root",
        workdir=WORKDIR,
        env={"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC"},
        put=put,
        outbox=(LOGS,),
        limits=limits.container(limits.verifier_seconds),
    )


def solution_put(solve_sh: bytes) -> tuple[Put, ...]:
    """Owned by root and not writable: the script cannot change itself."""
    members = {"solution": Member("dir", 0o755), "solution/solve.sh": Member("file", 0o555, data=solve_sh)}
    return (Put("/", pack_members(members)),)


def _artifacts(work: RunOutcome | live.LiveWork) -> tuple[Put, ...]:
    """The work directory as it was left, empty when the program removed it, and what was collected."""
    app = work.app if isinstance(work, live.LiveWork) else work.collected.get(WORKDIR)
    given = (Put("/", app or pack_members({WORKDIR.strip("/"): Member("dir", 0o755)})),)
    collected = work.artifacts if isinstance(work, live.LiveWork) else None
    return (*given, Put(live.ARTIFACTS, subtree(collected, "artifacts"))) if collected else given


def read_result(archive: bytes | None) -> tuple[int | None, tuple[CheckResult, ...]]:
    """Reward and checks from an archive of /logs/verifier.

    The reward counts only as ``0`` or ``1`` beside a well-formed checks.json that agrees with it;
    otherwise it is None. A lone 0 is the sign of a runner that died.
    """
    members = unpack(archive) if archive else {}
    checks = _checks(_content(members, "checks.json"))
    text = _content(members, "reward.txt")
    reward = {b"0": 0, b"1": 1}.get(text.rstrip(b"\n")) if text is not None else None
    agrees = bool(checks) and reward == int(all(check.status == "pass" for check in checks))
    return (reward if agrees else None), checks


def _content(members: dict[str, Member], name: str) -> bytes | None:
    member = members.get(f"verifier/{name}")
    usable = member is not None and member.type == "file" and member.size <= RESULT_CAP
    return member.data if member is not None and usable else None


def _checks(data: bytes | None) -> tuple[CheckResult, ...]:
    try:
        entries = _ENTRIES.validate_json(data or b"")
        return tuple(
            CheckResult.model_validate({"id": e.id, "requirement": e.rid, "status": e.status, "message": e.message})
            for e in entries
        )
    except ValidationError:
        return ()


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
