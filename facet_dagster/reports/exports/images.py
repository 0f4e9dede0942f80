"""The two images of each task, built from its package and published for machines that build nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from facet_dagster.ports import Sandbox
from facet_dagster.reports.exports.harbor import Pinned, Publish
from facet_dagster.reports.revalidate import package_of
from facet_dagster.stages.task.contexts import Contexts
from facet_dagster.stages.task.images import package_images
from facet_dagster.stages.task.package import TaskLimits

# The image on this engine, and what to call it -> a reference pinned by digest.
Sink = Callable[[str, str], str]


@contextmanager
def publishing(sandbox: Sandbox, sink: Sink) -> Iterator[Publish]:
    """What publishes the images of a package, by task and archive. Raises SandboxError."""

    def publish(task: str, archive: bytes) -> Pinned:
        contexts = Contexts.in_package(package_of(archive))
        with package_images(
            contexts.environment, contexts.tests, (), subject=task, sandbox=sandbox, limits=TaskLimits()
        ) as images:
            return Pinned(sink(images.environment, f"{task}-environment"), sink(images.verifier, f"{task}-verifier"))

    yield publish
