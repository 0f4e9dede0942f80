"""What a model adds to a certificate, on a real engine: hand-written mutants and other solutions of the example."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.adapters.memory import MemoryArtifactStore, ScriptedLLM
from facet_dagster.domain.archive import pack, unpack
from facet_dagster.domain.dockerfile import environment_executables, environment_files
from facet_dagster.domain.e0 import e0_from_archive
from facet_dagster.domain.environment import BuildAttempt, Environment, SourceFile
from facet_dagster.domain.outcome import Component, Reason
from facet_dagster.domain.task import Certificate, Task, VerifierReply
from facet_dagster.ports import BuildContext, Built
from facet_dagster.stages.task.certificate import certify
from facet_dagster.stages.task.examine import Examined, examine
from facet_dagster.stages.task.package import TaskLimits
from facet_dagster.stages.task.reexamine import examine_again
from facet_dagster.stages.task.validate import first_validation, trials_of
from tests.fixtures import task_example as example
from tests.fixtures.examination import (
    CRASH,
    EQUAL_STATE,
    EXACT_FORM,
    MUTANTS,
    QUOTE,
    REVERSED,
    WRONG_ORDER,
    second,
    triage,
)

pytestmark = pytest.mark.docker
LIMITS = TaskLimits.of(60)
# Without the row of an unknown region that has no amount either, no row tells which rule goes first.
POORER = example.SALES.replace("6,mars,\n", "")


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerSandbox]:
    sandbox = DockerSandbox(slots_dir=tmp_path_factory.mktemp("slots"))
    yield sandbox
    sandbox.close()


@contextmanager
def built(sandbox: DockerSandbox, sales: str = example.SALES) -> Iterator[Environment]:
    """The example's environment with content of this run alone, so that no other run removes its images."""
    files = {file.path: file for file in example.RECIPE.files}
    files["data/sales.csv"] = SourceFile(path="data/sales.csv", content=sales)
    mark = SourceFile(path="notes.txt", content=uuid.uuid4().hex)
    recipe = example.RECIPE.model_copy(update={"files": (*files.values(), mark)})
    context = environment_files(recipe, example.MANIFEST, example.BASE)
    image = sandbox.build(BuildContext(context, environment_executables(recipe)), subject=example.SEED.key)
    assert isinstance(image, Built), image
    attempt = BuildAttempt(round=0, recipe="r", image=image.image)
    archive = pack({f"app/{file.path}": file.content.encode() for file in recipe.files}, folders=("app",))
    e0 = e0_from_archive(archive, base_image=example.BASE)
    update = {"recipe": recipe, "attempts": (attempt,), "e0": e0}
    yield example.environment().model_copy(update=update)
    sandbox.remove_image(image.image)


@pytest.fixture(scope="module")
def environment(sandbox: DockerSandbox) -> Iterator[Environment]:
    with built(sandbox) as made:
        yield made


def examined(
    environment: Environment,
    sandbox: DockerSandbox,
    *,
    verifier: VerifierReply = example.VERIFIER,
    mutants: list[dict[str, Any]] = MUTANTS[:3],
    solutions: tuple[dict[str, Any], ...] = (second(),),
    triages: tuple[dict[str, Any], ...] = (),
    again: bool = False,
) -> Examined:
    """Of a task that is valid: both trials of the paper say so. ``again``: the probes are those without a model."""
    draft = example.draft(environment.image or "", verifier=verifier)
    outcome = first_validation(draft, environment, example.SCENARIO, sandbox=sandbox, trial_seconds=60)
    task = outcome.value
    assert isinstance(task, Task)
    assert task.valid, task.validations
    asked = {"semantic_mutants": [{"mutants": mutants}] * 2, "second_solution": list(solutions)}
    llm = ScriptedLLM({**asked, "triage_refusal": list(triages)})
    store = MemoryArtifactStore()
    with trials_of(draft, environment, sandbox=sandbox, limits=LIMITS) as trials:
        result = examine(task, example.SCENARIO, llm=llm, trials=trials, store=store)
        if again:
            tried = examine_again(task, example.SCENARIO, result.replies, trials=trials)
            result = replace(result, probes=tried.probes)
    return result


def test_a_sound_task_kills_its_mutants_and_accepts_another_solution(
    environment: Environment, sandbox: DockerSandbox
) -> None:
    result = examined(environment, sandbox, mutants=MUTANTS)
    probes = {probe.id: probe for probe in result.probes}
    assert [p.id for p in result.probes if p.crashed] == [CRASH]
    killed = {ident: probe.failed for ident, probe in probes.items() if probe.reward == 0}
    assert killed == {
        "M1": ("C9", "C11"),
        "M2": ("C11",),
        "M3": ("C10",),
        "M5": ("C4",),
        "M6": ("C12",),
        "M7": ("C4", "C5"),
        "M8": ("C3", "C6"),
    }
    assert (probes["S1"].reward, probes["S1"].kind) == (1, "second")
    # Unrounded totals are the same here; no discriminator promises a row that tells.
    assert [(f.probe, f.component, f.decides) for f in result.findings] == [(EQUAL_STATE, Component.ENVIRONMENT, False)]
    assert (result.rejection, result.open) == (None, ())


@pytest.mark.parametrize(("mutants", "reason"), [(MUTANTS, None), (MUTANTS[:3], Reason.TASK_MUTANT_SURVIVED)])
def test_a_standard_certificate_holds_what_a_model_tried(
    environment: Environment, sandbox: DockerSandbox, mutants: list[dict[str, Any]], reason: Reason | None
) -> None:
    weak = example.with_check(10, body='assert refused().get("5")') if reason else example.VERIFIER
    draft = example.draft(environment.image or "", verifier=weak)
    task = first_validation(draft, environment, example.SCENARIO, sandbox=sandbox, trial_seconds=60).value
    assert isinstance(task, Task)
    llm = ScriptedLLM({"semantic_mutants": [{"mutants": mutants}] * 2, "second_solution": [second()]})
    store = MemoryArtifactStore()
    outcome = certify(
        task,
        example.SCENARIO,
        example.SKILLS,
        sandbox=sandbox,
        store=store,
        trial_seconds=60,
        day=date(2026, 1, 2),
        level="standard",
        llm=llm,
    )
    if reason:
        assert outcome.rejection is not None
        assert outcome.rejection.reason is reason
        return
    assert isinstance(outcome.value, Certificate), outcome.rejection
    assert outcome.value.level == "standard"
    assert {"semantic", "second"} <= {probe.kind for probe in outcome.value.probes}
    assert "M1" in outcome.value.kills.kills["C9"]
    shipped = json.loads(unpack(store.get(outcome.value.package))["certificate.json"].data)
    assert shipped["level"] == "standard"


def test_a_weak_check_lets_a_mutant_survive_and_is_blamed(environment: Environment, sandbox: DockerSandbox) -> None:
    weak = example.with_check(12, body='assert len(rows_of(APP / "out/rejects.csv")) > 1, "no rows"')
    chosen = [one for one in MUTANTS if one["id"] not in (EQUAL_STATE, CRASH)]
    result = examined(environment, sandbox, verifier=weak, mutants=chosen)
    assert result.rejection is not None
    assert (result.rejection.reason, result.rejection.component) == (Reason.TASK_MUTANT_SURVIVED, Component.VERIFIER)
    (finding,) = result.findings
    assert finding.evidence["mutant"]["replace"] == next(m["replace"] for m in MUTANTS if m["id"] == REVERSED)
    assert finding.evidence["differing"] == ["app/out/rejects.csv"]
    assert "+6,empty" in finding.evidence["difference"]


def test_a_row_that_is_not_there_lets_a_mutant_survive_and_the_environment_is_blamed(sandbox: DockerSandbox) -> None:
    without = example.with_check(11, body='reason_is_right("5")')
    with built(sandbox, POORER) as poorer:
        result = examined(poorer, sandbox, verifier=without)
    assert result.rejection is not None
    assert (result.rejection.reason, result.rejection.component) == (Reason.TASK_MUTANT_SURVIVED, Component.ENVIRONMENT)
    assert [(finding.probe, finding.evidence["differing"]) for finding in result.findings] == [("M2", [])]


def test_a_verifier_that_demands_one_spelling_is_over_strict(environment: Environment, sandbox: DockerSandbox) -> None:
    strict = example.with_check(6, body=EXACT_FORM)
    result = examined(environment, sandbox, verifier=strict, triages=(triage("solver", "write 0.0 and not 0.00"),))
    assert result.rejection is not None
    assert (result.rejection.reason, result.rejection.component) == (Reason.TASK_OVER_STRICT, Component.VERIFIER)
    assert result.rejection.evidence["checks"][0]["log_tail"] == "east is not written as 0.0"
    assert [finding.probe for finding in result.findings] == ["S1"]


def test_the_solvers_own_mistake_is_no_fault_of_the_task(environment: Environment, sandbox: DockerSandbox) -> None:
    solutions = (second(WRONG_ORDER), second())
    result = examined(environment, sandbox, solutions=solutions, triages=(triage("solver", QUOTE),))
    assert result.rejection is None
    assert [(p.id, p.reward, p.failed, p.crashed) for p in result.probes if p.kind == "second"] == [
        ("S1", 0, ("C11",), True),
        ("S2", 1, (), False),
    ]


def test_a_program_that_fails_is_asked_for_again_with_what_it_said(
    environment: Environment, sandbox: DockerSandbox
) -> None:
    broken = second("set -e\necho lost >&2\ncat /app/nowhere\n")
    result = examined(environment, sandbox, solutions=(broken, second()))
    assert result.rejection is None
    assert [p.ok for p in result.probes if p.kind == "second"] == [True, True]
    assert result.probes[-1].reward == 1


def test_what_was_kept_gives_the_same_verdicts_without_a_model(
    environment: Environment, sandbox: DockerSandbox
) -> None:
    result = examined(environment, sandbox, mutants=MUTANTS[:3], again=True)
    assert [(p.id, p.reward, p.failed) for p in result.probes] == [
        ("M1", 0, ("C9", "C11")),
        ("M2", 0, ("C11",)),
        ("M3", 0, ("C10",)),
        ("S1", 1, ()),
    ]
