"""The environment of a task built again without caches, on a real engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from facet_dagster.adapters.docker_labels import RUN
from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.adapters.sandbox_contract import SUBJECT, context
from facet_dagster.domain.outcome import Component, Reason, Rejection
from facet_dagster.ports import BuildContext, Built
from facet_dagster.stages.task.certificate.bench import Bench
from facet_dagster.stages.task.certificate.rebuild import rebuilt
from facet_dagster.stages.task.contexts import Contexts
from facet_dagster.stages.task.images import e0_archive
from facet_dagster.stages.task.package import TaskLimits
from facet_dagster.stages.task.validate import trials_of
from tests.fixtures import seeded_example as seeded
from tests.fixtures import task_example as example
from tests.fixtures.engines import connect

pytestmark = pytest.mark.docker
ENTROPY = seeded.GENERATOR.replace('random.Random("data/sales.csv")', "random.Random()")


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerSandbox]:
    sandbox = DockerSandbox(slots_dir=tmp_path_factory.mktemp("slots"))
    yield sandbox
    sandbox.close()


def tried(
    sandbox: DockerSandbox, generator: str = seeded.GENERATOR, instead: BuildContext | None = None
) -> tuple[Rejection | None, list[str], list[str]]:
    """Rejection, remarks, and the probes with their rewards; built anew is ``instead``."""
    with seeded.built(sandbox, generator) as environment:
        draft = example.draft(environment.image or "")
        with trials_of(draft, environment, sandbox=sandbox, limits=TaskLimits.of(60)) as trials:
            bench, e0 = Bench(trials, draft), e0_archive(trials.images.environment, sandbox)
            again = instead or Contexts.of(draft, environment, e0).environment
            rejection, remarks = rebuilt(bench, again, e0, sandbox)
        return rejection, remarks, [f"{probe.id}={probe.reward}" for probe in bench.probes]


def test_the_same_files_and_verdict_are_found_again(sandbox: DockerSandbox) -> None:
    assert tried(sandbox) == (None, [], ["rebuilt/1=1"])


def test_files_that_are_others_each_time_are_the_environments_fault(sandbox: DockerSandbox) -> None:
    rejection, _, _ = tried(sandbox, ENTROPY)
    assert rejection is not None
    assert (rejection.reason, rejection.component) == (Reason.TASK_FLAKY, Component.ENVIRONMENT)
    assert rejection.evidence["files"] == ["app/data/sales.csv"]


def test_a_build_that_fails_now_is_a_remark(sandbox: DockerSandbox) -> None:
    rejection, remarks, probes = tried(sandbox, instead=context(example.BASE, "exit 7"))
    assert (rejection, probes) == (None, [])
    assert remarks[0].startswith("The environment could not be built again without caches (RUN exit 7")


@pytest.mark.parametrize("classic", [False, True])
def test_a_fresh_build_uses_no_cache_and_nobodys_tag(tmp_path: Path, classic: bool) -> None:
    sandbox = DockerSandbox(slots_dir=tmp_path, classic_builder=classic)
    moment = context(example.BASE, "date +%s%N > /app/moment")
    made = [sandbox.build(moment, subject=SUBJECT, fresh=fresh) for fresh in (False, True, True, False)]
    images = [one.image for one in made if isinstance(one, Built)]
    assert len(images) == 4
    read = [sandbox.read(image, "/app/moment") for image in images]
    assert images[0] == images[3]
    assert len(set(images)) == len(set(read)) == 3
    for image in set(images):
        sandbox.remove_image(image)
    sandbox.close()
    with closing(connect()) as api:
        assert api.images(all=True, filters={"label": f"{RUN}={sandbox.run_id}"}) == []
