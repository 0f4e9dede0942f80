"""The two images of a task: where the work is done and where it is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from facet_dagster.domain.dockerfile import environment_executables, environment_files
from facet_dagster.domain.environment import WORKDIR, Environment, Service
from facet_dagster.domain.task import Draft
from facet_dagster.errors import SandboxError
from facet_dagster.ports import BuildContext, BuildFailed, Sandbox
from facet_dagster.stages.task.package import TaskLimits, verifier_context

ATTEMPTS = 5


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
