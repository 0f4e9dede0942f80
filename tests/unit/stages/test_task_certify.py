from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from facet_dagster.adapters.memory import MemoryArtifactStore
from facet_dagster.adapters.memory_sandbox import MemorySandbox
from facet_dagster.domain.archive import unpack
from facet_dagster.domain.facts import ArtifactFact, TrialFact
from facet_dagster.domain.ids import digest
from facet_dagster.domain.outcome import Reason
from facet_dagster.domain.task import Certificate, Task
from facet_dagster.errors import InvariantError
from facet_dagster.funnel import Outcome
from facet_dagster.stages.task.certificate import certify
from facet_dagster.stages.task.validate import first_validation
from tests.fixtures import task_example as example
from tests.fixtures.task_bench import E0_STATUSES, GOOD, bench, sound

BASELINES, ORACLES = 2, 3


def valid_task() -> Task:
    outcome = first_validation(
        example.draft(), example.environment(), example.SCENARIO, sandbox=bench(sound), trial_seconds=9
    )
    assert isinstance(outcome.value, Task)
    return outcome.value


def certified(sandbox: MemorySandbox) -> tuple[Outcome, MemoryArtifactStore]:
    store = MemoryArtifactStore()
    outcome = certify(valid_task(), example.SCENARIO, example.SKILLS, sandbox=sandbox, store=store, trial_seconds=9)
    return outcome, store


def test_three_oracles_and_two_baselines_make_a_certificate() -> None:
    sandbox = bench(sound)
    outcome, _ = certified(sandbox)
    assert isinstance(outcome.value, Certificate)
    assert (outcome.value.oracle, outcome.value.baseline) == ((1, 1, 1), (0, 0))
    assert (outcome.value.base_image, outcome.value.standin) == (example.BASE, False)
    assert outcome.numbers == {"oracle": 3, "baseline": 2, "checks": 13}
    assert len(sandbox.runs) == 2 * (BASELINES + ORACLES)
    trials = [(f.kind, f.repeat, f.reward) for f in outcome.facts if isinstance(f, TrialFact)]
    assert trials == [("baseline", 0, 0), ("baseline", 1, 0), ("oracle", 0, 1), ("oracle", 1, 1), ("oracle", 2, 1)]


def test_the_package_is_stored_under_the_digest_that_the_certificate_names() -> None:
    outcome, store = certified(bench(sound))
    assert isinstance(outcome.value, Certificate)
    data = store.get(outcome.value.package)
    assert digest(data) == outcome.value.package
    assert 'certificate = "basic"' in unpack(data)["task.toml"].data.decode()
    (fact,) = [f for f in outcome.facts if isinstance(f, ArtifactFact)]
    assert (fact.sha256, fact.kind, fact.size) == (outcome.value.package, "package", len(data))


def sequence(
    oracles: list[Mapping[str, str]], baselines: list[Mapping[str, str]]
) -> Callable[[str], Mapping[str, str]]:
    """A judge whose answers differ from trial to trial."""
    return lambda text: (oracles if text else baselines).pop(0)


@pytest.mark.parametrize(
    ("oracles", "baselines", "unsteady"),
    [
        ([GOOD, {**GOOD, "C4": "fail"}, GOOD], [E0_STATUSES] * 2, ["C4"]),
        ([GOOD] * 3, [E0_STATUSES, GOOD], [f"C{n}" for n in (1, 10, 11, 12, 2, 3, 4, 5, 6, 7, 8, 9)]),
        ([GOOD] * 3, [E0_STATUSES, {**E0_STATUSES, "C3": "pass"}], ["C3"]),
        ([{**GOOD, "C4": "fail"}] * 3, [E0_STATUSES] * 2, []),
    ],
)
def test_any_disagreement_is_flaky(
    oracles: list[Mapping[str, str]], baselines: list[Mapping[str, str]], unsteady: list[str]
) -> None:
    outcome, _ = certified(bench(sequence(list(oracles), list(baselines))))
    assert outcome.value is None
    assert outcome.rejection is not None
    assert outcome.rejection.reason is Reason.TASK_FLAKY
    assert outcome.rejection.evidence["checks"] == unsteady
    assert len(outcome.rejection.evidence["rewards"]) == BASELINES + ORACLES


def test_only_valid_tasks_are_certified() -> None:
    task = valid_task().model_copy(update={"validations": ()})
    with pytest.raises(InvariantError):
        certify(
            task,
            example.SCENARIO,
            example.SKILLS,
            sandbox=bench(sound),
            store=MemoryArtifactStore(),
            trial_seconds=9,
        )
