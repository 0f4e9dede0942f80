"""Two solutions and two verifiers on a real engine, with replies written by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.adapters.memory import MemoryArtifactStore, ScriptedLLM
from facet_dagster.domain.environment import Environment
from facet_dagster.domain.facts import ArtifactFact, AttemptFact
from facet_dagster.domain.outcome import Component, Reason
from facet_dagster.domain.second import SecondReply
from facet_dagster.domain.task import Task, VerifierReply
from facet_dagster.stages.task.blind import Blind, blind
from facet_dagster.stages.task.package import TaskLimits
from facet_dagster.stages.task.validate import trials_of
from tests.fixtures import seeded_example as seeded
from tests.fixtures import task_example as example
from tests.fixtures.examination import AWK, EXACT_FORM, second, triage

pytestmark = pytest.mark.docker
ORDER = "Refused rows are listed by ascending id."
UNORDERED = example.with_check(12, body='assert len(rows_of(APP / "out/rejects.csv")) > 1, "no rows"')
REVERSED = example.SOLVE.replace("sorted(refused)", "sorted(refused, reverse=True)")


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerSandbox]:
    sandbox = DockerSandbox(slots_dir=tmp_path_factory.mktemp("slots"))
    yield sandbox
    sandbox.close()


@pytest.fixture(scope="module")
def environment(sandbox: DockerSandbox) -> Iterator[Environment]:
    with seeded.built(sandbox) as made:
        yield made


def judged(
    environment: Environment,
    sandbox: DockerSandbox,
    *writers: VerifierReply,
    solve: str = example.SOLVE,
    triages: tuple[dict[str, Any], ...] = (),
) -> tuple[Blind, ScriptedLLM]:
    """What a blind verifier says of a task whose own one does not look at the order of rows."""
    draft = example.draft(environment.image or "", verifier=UNORDERED, solution=example.solution(solve))
    task = Task(seed=draft.seed, title="t", draft=draft, environment=environment, validations=())
    replies = [example.as_json(one) for one in writers]
    llm = ScriptedLLM({"blind_verifier": replies, "triage_refusal": list(triages)})
    others = {"S1": SecondReply.model_validate(second(AWK))}
    with trials_of(draft, environment, sandbox=sandbox, limits=TaskLimits.of(60)) as trials:
        found = blind(task, example.SCENARIO, others, llm=llm, trials=trials, store=MemoryArtifactStore())
    return found, llm


def test_two_verifiers_agree_on_two_solutions(environment: Environment, sandbox: DockerSandbox) -> None:
    found, llm = judged(environment, sandbox, example.VERIFIER)
    assert (found.rejection, found.open, found.reply) == (None, "", example.VERIFIER)
    assert [(probe.id, probe.reward, probe.ok) for probe in found.probes] == [
        ("blind/solution", 1, True),
        ("blind/S1", 1, True),
    ]
    assert [fact.kind for fact in found.facts if isinstance(fact, ArtifactFact)] == ["blind_verifier"]
    assert [call for call, *_ in llm.asked] == ["blind_verifier"]
    shown = str(llm.variables[0])
    assert "reason_is_right" not in shown
    assert "python3 -" not in shown


@pytest.mark.parametrize(
    ("fault", "quote", "component"),
    [("solver", ORDER, Component.VERIFIER), ("instruction", ORDER, Component.INSTRUCTION)],
)
def test_work_that_breaks_a_rule_and_is_accepted_is_a_disagreement(
    environment: Environment, sandbox: DockerSandbox, fault: str, quote: str, component: Component
) -> None:
    found, _ = judged(environment, sandbox, example.VERIFIER, solve=REVERSED, triages=(triage(fault, quote),))
    assert found.rejection is not None
    assert (found.rejection.reason, found.rejection.component) == (Reason.TASK_VERIFIERS_DISAGREE, component)
    assert found.rejection.evidence["quote"] == ORDER
    assert [check["id"] for check in found.rejection.evidence["checks"]] == ["C12"]
    assert [probe.id for probe in found.probes] == ["blind/solution"]


def test_a_blind_verifier_that_is_over_strict_says_nothing_of_the_task(
    environment: Environment, sandbox: DockerSandbox
) -> None:
    """Also where the triage blames the solver with a sentence that stands nowhere."""
    strict = example.with_check(6, body=EXACT_FORM)
    found, _ = judged(environment, sandbox, strict, triages=(triage("solver", "write 0.0 and not 0.00"),) * 2)
    assert (found.rejection, found.reply) == (None, None)
    assert found.open.startswith("The blind verifier was at fault itself")
    assert {probe.crashed for probe in found.probes if probe.reward != 1} == {True}


def test_a_verifier_that_breaks_a_rule_is_asked_for_once_more(environment: Environment, sandbox: DockerSandbox) -> None:
    broken = example.with_check(6, body="import subprocess\nassert subprocess.run(['true']).returncode == 0, totals()")
    found, llm = judged(environment, sandbox, broken, example.VERIFIER)
    assert (found.open, found.reply) == ("", example.VERIFIER)
    assert llm.variables[1]["problems"]
    assert [fact.ok for fact in found.facts if isinstance(fact, AttemptFact)] == [False, True]
    found, _ = judged(environment, sandbox, broken, broken)
    assert (found.probes, found.open.startswith("The blind verifier cannot be used")) == ([], True)


def test_one_that_accepts_the_untouched_state_says_nothing(environment: Environment, sandbox: DockerSandbox) -> None:
    body = 'assert (APP / "data/sales.csv").is_file(), ("out/totals.json", "out/rejects.csv")'
    checks = [check.model_copy(update={"body": body}) for check in example.CHECKS]
    found, _ = judged(environment, sandbox, VerifierReply(helpers=example.HELPERS, checks=checks))
    assert found.open.endswith("accepts the untouched initial state.")
    assert (found.probes, found.reply) == ([], None)
