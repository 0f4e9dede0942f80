"""What a certificate finds is repaired, on a real engine: each component once, and what a later edit may not undo."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.adapters.memory import MemoryArtifactStore, ScriptedLLM
from facet_dagster.domain.environment import DiscriminatorRow, Environment, EnvironmentRepairReply, FileEdit, SourceFile
from facet_dagster.domain.facts import AttemptFact, TrialFact
from facet_dagster.domain.outcome import Component, Reason
from facet_dagster.domain.scenario import Scenario
from facet_dagster.domain.task import Certificate, Draft, Task, VerifierReply
from facet_dagster.funnel import Outcome
from facet_dagster.ports import BuildContext, BuildFailed, Built
from facet_dagster.stages import environment as environments
from facet_dagster.stages.task import certify_and_repair
from facet_dagster.stages.task.validate import first_validation
from tests.fixtures import task_example as example
from tests.fixtures.examination import EXACT_FORM, MUTANTS, QUOTE, REVERSED, WRONG_ORDER, second, triage

pytestmark = pytest.mark.docker
SCENARIO: Scenario = example.SCENARIO
ROWS = {"D1": "4,east", "D2": "5,mars", "D3": "7,south"}
# Without the row of an unknown region that has no amount either, no row tells which rule goes first.
POORER = example.SALES.replace("6,mars,\n", "")
ANY_ORDER = 'assert len(rows_of(APP / "out/rejects.csv")) > 1, "no rows"'
CHECKS = {check.id: example.as_json(check) for check in example.CHECKS}


class Remembering(DockerSandbox):
    """Knows the images that it built, so that none of a task stays."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.built: set[str] = set()

    def build(self, context: BuildContext, **options: Any) -> Built | BuildFailed:
        done = super().build(context, **options)
        if isinstance(done, Built) and "files/RULES.md" in context.files:
            self.built.add(done.image)
        return done

    def close(self) -> None:
        for image in self.built:
            self.remove_image(image)
        super().close()


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remembering]:
    sandbox = Remembering(slots_dir=tmp_path_factory.mktemp("slots"))
    yield sandbox
    sandbox.close()


def built(sandbox: DockerSandbox, sales: str = example.SALES) -> Environment:
    """The example's environment, captured, with content of this run alone."""
    files = {file.path: file for file in example.RECIPE.files}
    files["data/sales.csv"] = SourceFile(path="data/sales.csv", content=sales)
    mark = SourceFile(path="notes.txt", content=uuid.uuid4().hex)
    rows = tuple(DiscriminatorRow(id=ident, path="data/sales.csv", find=find) for ident, find in ROWS.items())
    recipe = example.RECIPE.model_copy(update={"files": (*files.values(), mark), "rows": rows})
    start = example.environment().model_copy(update={"recipe": recipe, "attempts": (), "e0": None})
    made = environments.rebuild(start, recipe, SCENARIO, sandbox=sandbox, build_seconds=300)
    assert made.e0 is not None, made.attempts
    return made


@pytest.fixture(scope="module")
def environment(sandbox: Remembering) -> Environment:
    return built(sandbox)


@dataclass(frozen=True)
class Settled:
    """What became of a task. ``start`` is the one that the certificate was given."""

    start: Task
    outcome: Outcome
    llm: ScriptedLLM

    @property
    def certificate(self) -> Certificate:
        assert isinstance(self.outcome.value, Certificate)
        return self.outcome.value

    @property
    def task(self) -> Task:
        assert self.certificate.task is not None
        return self.certificate.task

    @property
    def calls(self) -> list[str]:
        return [call for call, _, _ in self.llm.asked]

    @property
    def findings(self) -> list[str]:
        """Reasons of the certificates that refused, in order."""
        facts = [fact for fact in self.outcome.facts if isinstance(fact, AttemptFact)]
        return [fact.summary.partition(":")[0] for fact in facts if fact.kind == "certificate"]

    def rewards(self, kind: str) -> list[int | None]:
        return [f.reward for f in self.outcome.facts if isinstance(f, TrialFact) and f.kind.startswith(kind)]


def settled(
    environment: Environment, sandbox: DockerSandbox, repairs: Sequence[Any], *, rounds: int = 5, **more: Any
) -> Settled:
    """``more``: parts of the draft, the level, and replies of the examination."""
    level = more.pop("level", "standard")
    solutions, triages = more.pop("solutions", [second()]), more.pop("triages", [])
    draft: Draft = example.draft(environment.image or "", **more)
    start = first_validation(draft, environment, SCENARIO, sandbox=sandbox, trial_seconds=60).value
    assert isinstance(start, Task)
    assert start.valid, start.validations
    written = {"semantic_mutants": [{"mutants": MUTANTS}], "second_solution": solutions, "triage_refusal": triages}
    llm = ScriptedLLM({**written, "repair_task": list(repairs)})

    def rebuild(old: Environment, edits: tuple[FileEdit, ...]) -> Environment:
        recipe, problems = environments.apply_repair(
            old.recipe, EnvironmentRepairReply(diagnosis="d", edits=list(edits))
        )
        assert problems == []
        return environments.rebuild(old, recipe, SCENARIO, sandbox=sandbox, build_seconds=300)

    outcome = certify_and_repair(
        start,
        SCENARIO,
        example.SKILLS,
        llm=llm,
        sandbox=sandbox,
        store=MemoryArtifactStore(),
        trial_seconds=60,
        day=example.DAY,
        level=level,
        rounds=rounds,
        rebuild=rebuild,
    )
    return Settled(start, outcome, llm)


def reply(component: str, **more: Any) -> dict[str, Any]:
    return {"component": component, "evidence": "what was tried shows it", **more}


def weak() -> VerifierReply:
    return example.with_check(12, body=ANY_ORDER)


def strict() -> VerifierReply:
    return example.with_check(6, body=EXACT_FORM)


VALUES = [{"rule": "Totals are rounded to two decimals.", "row": '["north", "south", "east"]'}]


def test_a_surviving_mutant_is_repaired_in_the_verifier(environment: Environment, sandbox: Remembering) -> None:
    done = settled(environment, sandbox, [reply("verifier", put_checks=[CHECKS["C12"]])], verifier=weak())
    assert done.outcome.rejection is None
    assert done.certificate.package
    assert done.findings == ["task.mutant_survived"]
    assert done.calls == ["semantic_mutants", "second_solution", "repair_task"], "what was written is tried again"
    assert done.task.draft.verifier == example.VERIFIER
    shown = done.llm.variables[2]["evidence"]["tried_by_certificate"]["surviving_mutants"]
    assert [(one["find"], one["files_that_differ"]) for one in shown] == [
        (next(m["find"] for m in MUTANTS if m["id"] == REVERSED), ["app/out/rejects.csv"])
    ]
    assert "+6,empty" in shown[0]["solution_minus_mutant_plus"]["log_tail"]
    assert len(done.task.known) == 7, "the survivor, and those that were refused with another final state"
    assert done.rewards("negative/") == [0] * 7
    assert {"M6": 0, "S1": 1}.items() <= {p.id: p.reward for p in done.certificate.probes}.items()


def test_a_missing_row_is_repaired_in_the_environment(sandbox: Remembering) -> None:
    loop = "for ident in expected()[1]:\n    reason_is_right(ident)\nassert refused(), 'nothing is refused'"
    row = {"target": "data/sales.csv", "find": "5,mars,9.00\n", "replace": "5,mars,9.00\n6,mars,\n"}
    poorer = built(sandbox, POORER)
    done = settled(poorer, sandbox, [reply("environment", edits=[row])], verifier=example.with_check(11, body=loop))
    assert done.outcome.rejection is None, done.outcome.rejection
    assert done.findings == ["task.mutant_survived"]
    assert done.llm.variables[2]["evidence"]["component_by_rule"] == "environment"
    now = done.task
    assert now.draft.image == now.environment.image != poorer.image
    assert now.environment.e0 is not None
    assert any("6,mars," in file.content for file in now.environment.e0.files), "e0 is captured anew"
    assert now.draft.e0_digest != done.start.draft.e0_digest
    assert {p.id: p.reward for p in done.certificate.probes}["M2"] == 0
    assert done.rewards("negative/") == [], "states of the old environment say nothing about the new one"


def test_an_over_strict_check_is_repaired_and_the_right_work_stays_accepted(
    environment: Environment, sandbox: Remembering
) -> None:
    repair = reply("verifier", put_checks=[CHECKS["C6"]], quotes=VALUES)
    done = settled(environment, sandbox, [repair], verifier=strict(), triages=[triage("verifier")])
    assert done.outcome.rejection is None, done.outcome.rejection
    assert done.findings == ["task.over_strict"]
    assert done.calls == ["semantic_mutants", "second_solution", "triage_refusal", "repair_task"]
    assert [state.wanted for state in done.task.known].count(1) == 1
    assert done.rewards("positive/") == [1]
    assert "M8" not in str(done.task.known)
    assert not any("regions[:2]" in s.why for s in done.task.known), "only the check at fault had refused it"


def test_an_instruction_with_two_readings_is_repaired(environment: Environment, sandbox: Remembering) -> None:
    clear = "by rules 1, 2, 4; where rules 1 and 2 both apply, the reason is that of rule 1"
    edit = {"target": "section 1", "find": "by rules 1, 2, 4", "replace": clear}
    done = settled(
        environment,
        sandbox,
        [reply("instruction", edits=[edit])],
        solutions=[second(WRONG_ORDER), second()],
        triages=[triage("instruction", QUOTE)],
    )
    assert done.outcome.rejection is None, done.outcome.rejection
    assert done.llm.variables[3]["evidence"]["component_by_rule"] == "instruction"
    assert done.llm.variables[3]["evidence"]["tried_by_certificate"]["referee"]["quote"] == QUOTE
    assert clear in done.task.draft.instruction.sections[1].text
    assert done.calls[-1] == "second_solution", "the reading that is ruled out now is refused without a word"
    assert [s.wanted for s in done.task.known].count(1) == 0


def test_a_solution_that_cannot_run_twice_is_repaired(environment: Environment, sandbox: Remembering) -> None:
    appends = example.SOLVE.replace('"out/rejects.csv", "w"', '"out/rejects.csv", "a"')
    edit = {"target": "solve.sh", "find": '"out/rejects.csv", "a"', "replace": '"out/rejects.csv", "w"'}
    done = settled(
        environment,
        sandbox,
        [reply("solution", edits=[edit])],
        level="basic",
        solution=example.solution(appends),
    )
    assert done.outcome.rejection is None, done.outcome.rejection
    assert (done.findings, done.calls) == (["task.not_idempotent"], ["repair_task"])
    assert done.llm.variables[0]["evidence"]["checks_not_passed"]
    assert done.task.draft.solution == example.SOLUTION


def test_spent_rounds_reject_with_what_the_certificate_found(environment: Environment, sandbox: Remembering) -> None:
    title = {**CHECKS["C12"], "body": ANY_ORDER, "title": "some rows"}
    done = settled(environment, sandbox, [reply("verifier", put_checks=[title])], verifier=weak(), rounds=1)
    assert done.outcome.rejection is not None
    assert done.outcome.rejection.reason is Reason.TASK_REPAIR_EXHAUSTED
    assert done.outcome.rejection.component is Component.VERIFIER
    assert done.outcome.rejection.evidence["last_reason"] == "task.mutant_survived"
    assert done.certificate.package == ""
    assert done.task.draft.verifier.checks[11].title == "some rows"
    assert [(v.valid, v.by_certificate) for v in done.task.validations] == [
        (True, False),
        (False, True),
        (False, False),
    ]


def test_a_later_edit_may_not_accept_what_was_refused(environment: Environment, sandbox: Remembering) -> None:
    """The first repair mends one check and weakens another; no mutant is run to find that out."""
    lax = {**CHECKS["C12"], "body": ANY_ORDER}
    repairs = [
        reply("verifier", put_checks=[CHECKS["C6"], lax], quotes=VALUES),
        reply("verifier", put_checks=[CHECKS["C12"]]),
    ]
    done = settled(environment, sandbox, repairs, verifier=strict(), triages=[triage("verifier")])
    assert done.outcome.rejection is None, done.outcome.rejection
    assert done.findings == ["task.over_strict"]
    first, last = done.task.repairs
    assert first.result.startswith("task.mutant_survived: negative ")
    assert last.result == "valid"
    told = done.llm.variables[-1]["evidence"]["tried_by_certificate"]["known_states"]
    assert [(one["wanted"], "reverse=True" in one["what"]) for one in told] == [(0, True)]
    assert done.outcome.numbers["certificate_repairs"] == 2
