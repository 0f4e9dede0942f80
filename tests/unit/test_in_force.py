"""Reports show the task that counts: also where a certificate changed it, or was the end of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from facet_dagster.adapters.memory import MemoryArtifactStore, MemoryLedger
from facet_dagster.domain.facts import CandidateFact, SeedFact
from facet_dagster.domain.outcome import Reason, Rejection, Verdict, reject
from facet_dagster.domain.task import Certificate, RepairRound, Task, Validation
from facet_dagster.funnel import Compute, Memo, Outcome, Stage, plan, run_stage
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.reports.coverage import coverage_of
from facet_dagster.reports.funnel import funnel
from facet_dagster.reports.in_force import task_in_force
from facet_dagster.reports.states import state
from facet_dagster.reports.tasks import tasks
from facet_dagster.reports.why import why
from facet_dagster.settings import Settings
from tests.fixtures import task_example as example

KEY = example.SEED.key
GOOD = Validation(round=0, baseline=None, oracle=None, rejection=None)
FINDING = reject(Reason.TASK_ATTACK_ACCEPTED, "The verifier gives the reward for empty outputs.")
FOUND = GOOD.model_copy(update={"rejection": FINDING, "by_certificate": True})
TASK = Task(seed=KEY, title="t", draft=example.draft(), environment=example.environment(), validations=(GOOD,))
MORE = example.check(14, "R1", "one more", "assert totals()")
REPAIRED = TASK.model_copy(
    update={
        "draft": example.draft(
            round=1, verifier=example.VERIFIER.model_copy(update={"checks": [*example.CHECKS, MORE]})
        ),
        "validations": (GOOD, FOUND, GOOD.model_copy(update={"round": 1})),
        "repairs": (RepairRound(round=1, component=FINDING.component, evidence="e", changed=("C14",), result="valid"),),
    }
)
LOST = TASK.model_copy(update={"validations": (GOOD, FOUND)})


class World:
    def __init__(self, home: Path, certificate: Certificate, rejection: Rejection | None = None) -> None:
        self.settings = Settings(home=home)
        self.ledger, self.store = MemoryLedger(), MemoryArtifactStore()
        self.graph = seed_stages(self.settings)
        pair: dict[str, Any] = {"candidate": "c1", "first": "1", "second": "2"}
        self.ledger.append([CandidateFact(version="1", anchor="1", score=1.0, verdict=Verdict.ACCEPTED, **pair)])
        self.ledger.append([SeedFact(key=KEY, batch="b", scenario="s", families=["data", "ai"], **pair)])
        for stage, value in (
            (self.graph.seed, example.SEED),
            (self.graph.scenario, example.SCENARIO),
            (self.graph.first_build, TASK.environment),
            (self.graph.environment, TASK.environment),
            (self.graph.task_draft, TASK.draft),
        ):
            self.carry(stage, lambda _, value=value: Outcome(value))  # type: ignore[misc]
        self.carry(self.graph.first_validation, lambda _: Outcome(TASK, numbers={"valid": 1}))
        self.carry(self.graph.task, lambda _: Outcome(TASK))
        repairs = len(certificate.task.repairs) if certificate.task else 0
        numbers = {"certificate_repairs": repairs}
        self.carry(self.graph.certificate, lambda _: Outcome(certificate, rejection, numbers=numbers))

    def carry(self, stage: Stage, compute: Compute) -> None:
        work = plan(stage, [KEY], self.ledger).work
        run_stage(stage.name, work, compute, ledger=self.ledger, store=self.store, emit=lambda _: None)

    @property
    def ports(self) -> tuple[Settings, MemoryLedger, MemoryArtifactStore]:
        return self.settings, self.ledger, self.store

    def in_force(self) -> Task | None:
        return task_in_force(KEY, self.graph, self.ledger, self.store, Memo())


@pytest.fixture
def repaired(tmp_path: Path) -> World:
    return World(tmp_path, example.CERTIFIED.model_copy(update={"task": REPAIRED}))


def test_the_certificates_task_is_in_force_where_it_changed_one(repaired: World, tmp_path: Path) -> None:
    assert repaired.in_force() == REPAIRED
    assert World(tmp_path, example.CERTIFIED).in_force() == TASK


def test_tasks_coverage_and_funnel_show_the_repaired_task(repaired: World) -> None:
    (line,) = tasks(*repaired.ports)
    assert (line.checks, line.repairs) == (14, 1)
    joined = {line.rid: line.checks for line in coverage_of(KEY, *repaired.ports).requirements}
    assert "C14" in joined["R1"]
    counts = {row.name: row.count for row in funnel(*repaired.ports).rows}
    assert (counts["first_pass_valid"], counts["task_repaired"], counts["validated"]) == (1, 0, 1)
    assert (counts["certificate_repaired"], counts["certified"]) == (1, 1)


def test_a_rejected_certificate_shows_its_finding_its_cause_and_the_state_it_ended_in(tmp_path: Path) -> None:
    spent = reject(Reason.TASK_REPAIR_EXHAUSTED, "Not valid after 0 rounds.", last_reason=str(FINDING.reason))
    unfinished = example.CERTIFIED.model_copy(update={"task": LOST, "oracle": (), "baseline": ()})
    world = World(tmp_path, unfinished, spent)
    assert tasks(*world.ports) == []
    story = why(KEY, *world.ports)
    assert (story.stage, story.reason, story.cause) == (
        "certificate",
        "task.repair_exhausted",
        "weak-verifier discrimination",
    )
    certified = next(row for row in funnel(*world.ports).rows if row.name == "certified")
    assert (certified.count, certified.causes) == (0, {"weak-verifier discrimination": 1})
    told = state(KEY, "failed", *world.ports).told
    assert told[0].startswith("The certificate of round 0 failed, task.attack_accepted: The verifier gives the reward")
