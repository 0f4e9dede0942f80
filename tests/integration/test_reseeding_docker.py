"""The same task on data of another seed, on a real engine: answers that are typed are found out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.domain.findings import Probe
from facet_dagster.domain.outcome import Component, Reason, Rejection
from facet_dagster.domain.task import Draft, VerifierReply
from facet_dagster.stages.task.certificate.bench import Bench
from facet_dagster.stages.task.certificate.conditions import oracle
from facet_dagster.stages.task.certificate.final import Final
from facet_dagster.stages.task.certificate.reseeding import on_other_data
from facet_dagster.stages.task.contexts import Contexts
from facet_dagster.stages.task.images import e0_archive
from facet_dagster.stages.task.package import TaskLimits
from facet_dagster.stages.task.validate import trials_of
from tests.fixtures import seeded_example as seeded
from tests.fixtures import task_example as example

pytestmark = pytest.mark.docker
LIMITS = TaskLimits.of(60)
# A verifier that knows the data: what it expects is typed, or not compared at all.
KNOWING = example.HELPERS.replace(
    "want, got = expected()[0][region], totals().get(region)",
    f"want, got = Decimal(str({seeded.totals(seeded.sales())!r}[region])), totals().get(region)",
)
LAX = example.HELPERS.replace('abs(Decimal(str(got)) - want) < Decimal("0.005")', "got >= 0")


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerSandbox]:
    sandbox = DockerSandbox(slots_dir=tmp_path_factory.mktemp("slots"))
    yield sandbox
    sandbox.close()


def tried(
    sandbox: DockerSandbox,
    *,
    solve: str = example.SOLVE,
    helpers: str = example.HELPERS,
    generator: str = seeded.GENERATOR,
) -> tuple[Rejection | None, list[str], list[Probe]]:
    """Rejection, remarks and the probes after the oracle."""
    with seeded.built(sandbox, generator) as environment:
        verifier = VerifierReply(helpers=helpers, checks=example.CHECKS)
        draft: Draft = example.draft(environment.image or "", verifier=verifier, solution=example.solution(solve))
        with trials_of(draft, environment, sandbox=sandbox, limits=LIMITS) as trials:
            bench = Bench(trials, draft)
            plain, rejection = oracle(bench)
            assert rejection is None
            assert plain.work is not None
            e0 = e0_archive(trials.images.environment, sandbox)
            final = Final.of(plain.work.left, draft.instruction.outputs, e0)
            contexts = Contexts.of(draft, environment, e0)
            found, remarks = on_other_data(bench, final, contexts, environment, sandbox, most=2)
        return found, remarks, bench.probes[1:]


def test_a_sound_task_holds_on_other_data_and_old_answers_do_not(sandbox: DockerSandbox) -> None:
    rejection, remarks, probes = tried(sandbox)
    assert (rejection, remarks) == (None, [])
    assert [(probe.id, probe.reward, probe.ok) for probe in probes] == [
        ("reseeded/1", 1, True),
        ("stale/1", 0, True),
    ]
    assert "C4" in probes[1].failed
    assert "C13" not in probes[1].failed


@pytest.mark.parametrize(
    ("solve", "helpers", "component", "probes"),
    [
        (seeded.TYPED, example.HELPERS, Component.SOLUTION, ["reseeded/1"]),
        (seeded.TYPED, KNOWING, Component.SOLUTION, ["reseeded/1"]),
        (example.SOLVE, KNOWING, Component.VERIFIER, ["reseeded/1", "reseeded/2"]),
        (example.SOLVE, LAX, Component.VERIFIER, ["reseeded/1", "stale/1", "reseeded/2", "stale/2"]),
        (seeded.TYPED, LAX, Component.SOLUTION, ["reseeded/1"]),
    ],
    ids=[
        "typed outputs",
        "typed on both sides",
        "a verifier that knows them",
        "a verifier that compares nothing",
        "both",
    ],
)
def test_typed_answers_are_refused(
    sandbox: DockerSandbox, solve: str, helpers: str, component: Component, probes: list[str]
) -> None:
    rejection, _, found = tried(sandbox, solve=solve, helpers=helpers)
    assert rejection is not None
    assert (rejection.reason, rejection.component) == (Reason.TASK_HARD_CODED, component)
    assert [probe.id for probe in found] == probes
    assert rejection.evidence["changed"] == ["data/sales.csv"]


def test_literal_data_and_rows_that_wander_are_remarks(sandbox: DockerSandbox) -> None:
    rejection, remarks, probes = tried(sandbox, generator=seeded.LITERAL)
    assert (rejection, probes) == (None, [])
    assert "writes the same files" in remarks[0]
    rejection, remarks, probes = tried(sandbox, generator=seeded.WANDERING)
    assert (rejection, probes) == (None, [])
    assert remarks == ["The rows of D3 are not there with another seed: they are no literals."]


def test_a_generator_that_fails_with_another_seed_is_a_remark(sandbox: DockerSandbox) -> None:
    touchy = seeded.GENERATOR + f"assert open('data/sales.csv').read() == {seeded.sales()!r}, 'other data'\n"
    rejection, remarks, probes = tried(sandbox, generator=touchy)
    assert (rejection, probes) == (None, [])
    assert remarks[0].startswith("The generator fails with another seed")
