"""The two images of a task: where the work is done and where it is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from facet_dagster.domain.archive import pack
from facet_dagster.domain.dockerfile import (
    DOCKERFILE,
    bare_verifier_dockerfile,
    environment_executables,
    environment_files,
)
from facet_dagster.domain.environment import WORKDIR, Environment, Service
from facet_dagster.domain.task import Draft
from facet_dagster.errors import SandboxError
from facet_dagster.ports import BuildContext, BuildFailed, Built, Sandbox
from facet_dagster.stages.task.package import TaskLimits, verifier_context

ATTEMPTS = 5


@dataclass(frozen=True)
class Images:
    """Where the work is done, beside which services, and where it is judged.

    ``tests`` is the archive of /tests where the verifier's image does not hold it. ``e0`` is the archive of /app
    as the environment's image holds it: what a program that does nothing leaves.
    """

    environment: str
    verifier: str
    services: tuple[Service, ...] = ()
    tests: bytes | None = None
    e0: bytes | None = None


@contextmanager
def images(
    draft: Draft, environment: Environment, *, sandbox: Sandbox, limits: TaskLimits, packaged: bool = False
) -> Iterator[Images]:
    """Both images of a draft for the block.

    ``packaged``: the verifier's image is the package's own, built from the draft's tests/ folder and removed at
    the end. Otherwise the same files are put into the image that all verifiers share, which saves a build.
    Both Dockerfiles are ours, and the environment was built before, so a build that fails now is trouble
    of the machine: SandboxError.
    """
    with environment_image(environment, sandbox, limits) as work:
        e0 = e0_archive(work, sandbox)
        tests = verifier_context(draft, e0, environment.base_image)
        context = tests if packaged else _bare(environment.base_image)
        judge = ""
        try:
            with _held(lambda: _built(context, "verifier", environment.seed, sandbox, limits), sandbox) as judge:
                services = environment.recipe.services
                if packaged:
                    yield Images(work, judge, services)
                else:
                    yield Images(work, judge, services, pack(tests.files, executable=tests.executable), e0)
        finally:
            if judge and packaged:
                sandbox.remove_image(judge)


def _bare(base_image: str) -> BuildContext:
    return BuildContext({DOCKERFILE: bare_verifier_dockerfile(base_image, ()).encode()})


@contextmanager
def shared_verifier(base_image: str, subject: str, sandbox: Sandbox, limits: TaskLimits) -> Iterator[str]:
    """The image that all verifiers share, for the block. Raises SandboxError."""
    with _held(lambda: _built(_bare(base_image), "verifier", subject, sandbox, limits), sandbox) as image:
        yield image


@contextmanager
def package_images(
    environment: BuildContext,
    tests: BuildContext,
    services: tuple[Service, ...],
    *,
    subject: str,
    sandbox: Sandbox,
    limits: TaskLimits,
) -> Iterator[Images]:
    """Both images of a package, built from its folders, and removed at the end where they were not there before.

    Raises SandboxError: they were built before, so that a failure is trouble of the machine.
    """
    built: list[Built] = []

    def make(context: BuildContext, what: str) -> str:
        built.append(_build(context, what, subject, sandbox, limits))
        return built[-1].image

    try:
        with (
            _held(lambda: make(environment, "environment"), sandbox) as work,
            _held(lambda: make(tests, "verifier"), sandbox) as judge,
        ):
            yield Images(work, judge, services)
    finally:
        for one in built:
            if not one.reused:
                sandbox.remove_image(one.image)


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
    return _build(context, what, subject, sandbox, limits).image


def _build(context: BuildContext, what: str, subject: str, sandbox: Sandbox, limits: TaskLimits) -> Built:
    built = sandbox.build(context, subject=subject, seconds=limits.build_seconds)
    if isinstance(built, BuildFailed):
        text = f"The {what} image of {subject} does not build ({built.step}): {built.log_tail[-500:]}"
        raise SandboxError(text, transient=True)
    return built


def e0_archive(image: str, sandbox: Sandbox) -> bytes:
    """The initial files as the image holds them. Raises SandboxError when there are none: e0 is never empty."""
    archive = sandbox.read(image, WORKDIR)
    if not archive:
        raise SandboxError(f"Image {image} has no {WORKDIR}: remove the image and run the stage again")
    return archive
