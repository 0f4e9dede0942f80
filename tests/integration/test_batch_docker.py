"""Many final states in one container, on a real engine: the verdicts are those of containers of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.domain.task import Draft
from facet_dagster.stages.task.batch import judge_each
from facet_dagster.stages.task.certificate.bench import Asked, Bench
from facet_dagster.stages.task.certificate.final import Final
from facet_dagster.stages.task.images import e0_archive
from facet_dagster.stages.task.package import TaskLimits
from facet_dagster.stages.task.trial import Trials
from facet_dagster.stages.task.validate import solve_sh, trials_of
from tests.fixtures import seeded_example as seeded
from tests.fixtures import task_example as example

pytestmark = pytest.mark.docker
REJECTS = b"id,reason\n4,empty\n5,unknown\n6,empty\n"
CHANGES = (
    {"out/rejects.csv": None},
    {"out/rejects.csv": REJECTS.replace(b"5,", b"50,")},
    {"out/rejects.csv": REJECTS.replace(b"\n", b"\r\n")},
    {"data/regions.json": b"[]"},
)
# Remembers outside of /app and /tmp what it saw first, and refuses all that differs from it.
REMEMBERS = """seen = Path("/var/tmp/seen")
text = totals() and text_of(APP / "out/rejects.csv")
first = seen.read_text() if seen.exists() else text
seen.write_text(first)
assert text == first, "not what was seen first"
"""


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerSandbox]:
    sandbox = DockerSandbox(slots_dir=tmp_path_factory.mktemp("slots"))
    yield sandbox
    sandbox.close()


@contextmanager
def finished(sandbox: DockerSandbox, draft: Draft | None = None) -> Iterator[tuple[Trials, Final]]:
    """Trials of the package's own image, and what its solution left."""
    with seeded.built(sandbox, seeded.LITERAL) as environment:
        draft = (draft or example.draft()).model_copy(update={"image": environment.image})
        with trials_of(draft, environment, sandbox=sandbox, limits=TaskLimits.of(60), packaged=True) as trials:
            e0 = e0_archive(trials.images.environment, sandbox)
            yield trials, Final.of(trials.work(solve_sh(draft)).left, draft.instruction.outputs, e0)


def test_the_verdicts_are_those_of_single_containers(sandbox: DockerSandbox) -> None:
    with finished(sandbox) as (trials, final):
        lefts = [final.altered(change) for change in CHANGES]
        together = judge_each(trials, lefts, final.left, slowest=0.1)
        alone = [trials.judge(left) for left in lefts]
    assert [one and (one.reward, one.checks) for one in together] == [(one.reward, one.checks) for one in alone]
    assert [one.reward for one in alone] == [0, 0, 1, 0]
    assert alone[3].failed == ("C13",)


def test_a_verifier_that_carries_something_over_is_asked_in_containers_of_their_own(sandbox: DockerSandbox) -> None:
    draft = example.draft(verifier=example.with_check(12, body=REMEMBERS))
    with finished(sandbox, draft) as (trials, final):
        lefts = [final.altered(change) for change in CHANGES]
        assert judge_each(trials, lefts[1:], final.left, slowest=0.1) == [None] * 3
        bench = Bench(trials, draft)
        asked = [Asked(f"equivalent/{number}", "w", final.left) for number in range(3)]
        seen = list(bench.judge_each([*asked, Asked("file_mutant/1", "w", lefts[1])], final.left))
    assert [(one.probe.id, one.probe.reward) for one in seen] == [
        ("equivalent/0", 1),
        ("equivalent/1", 1),
        ("equivalent/2", 1),
        ("file_mutant/1", 0),
    ]


def test_a_slow_verifier_gets_a_container_for_each(sandbox: DockerSandbox) -> None:
    with finished(sandbox) as (trials, final):
        assert judge_each(trials, [final.left] * 3, final.left, slowest=20) == [None] * 3
