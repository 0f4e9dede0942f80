"""The environment built once more without any cache, as on another machine: the same files, and the solution right."""

from __future__ import annotations

from dataclasses import replace

from facet_dagster.domain.archive import Member, unpack
from facet_dagster.domain.outcome import Component, Reason, Rejection
from facet_dagster.ports import BuildContext, BuildFailed, Sandbox
from facet_dagster.stages.task.certificate.bench import Bench, refusal
from facet_dagster.stages.task.images import e0_archive
from facet_dagster.stages.task.validate import solve_sh

SHOWN = 10


def rebuilt(
    bench: Bench, environment: BuildContext, files: bytes, sandbox: Sandbox
) -> tuple[Rejection | None, list[str]]:
    """TASK_FLAKY, blamed on the environment, when initial files or verdict are others; or remarks.

    ``files`` is the archive of the initial files that the task was written for. A build that fails now says more about
    package servers than about the task, so it is a remark. Raises SandboxError.
    """
    subject, seconds = bench.draft.seed, bench.trials.limits.build_seconds
    built = sandbox.build(environment, subject=subject, seconds=seconds, fresh=True)
    if isinstance(built, BuildFailed):
        return None, [f"The environment could not be built again without caches ({built.step})."]
    try:
        with sandbox.hold(built.image):
            changed = _changed(files, e0_archive(built.image, sandbox))
            trials = replace(bench.trials, images=replace(bench.trials.images, environment=built.image, e0=None))
            again = bench.beside(trials)
            work = again.work(solve_sh(bench.draft))
            seen = again.judge("rebuilt/1", "the solution in an image built without caches", work.left, work=work)
    finally:
        sandbox.remove_image(built.image)
    if changed:
        text = f"Initial files are others when the environment is built again: {', '.join(changed[:SHOWN])}."
        return refusal(Reason.TASK_FLAKY, text, seen, component=Component.ENVIRONMENT, files=changed[:SHOWN]), []
    if seen.probe.reward != 1:
        text = "The solution is not accepted in an environment that was built again without caches."
        return refusal(Reason.TASK_FLAKY, text, seen, component=Component.ENVIRONMENT), []
    return None, []


def _changed(old: bytes, new: bytes) -> list[str]:
    """Paths of which content, kind or mode differ; times may."""
    before, after = unpack(old), unpack(new)
    return sorted(path for path in before.keys() | after.keys() if _told(before.get(path)) != _told(after.get(path)))


def _told(member: Member | None) -> object:
    return member and replace(member, mtime=0)
