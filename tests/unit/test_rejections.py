"""What a rejected partition points to, and the table of all deaths."""

from __future__ import annotations

import dagster as dg

from assets.rejections import MOST_ALIKE, Neighbours, metadata
from assets.reports import rejected_tasks
from facet_dagster.adapters.memory import MemoryLedger
from facet_dagster.domain.facts import StageFact
from facet_dagster.domain.outcome import Reason, StageResult, Verdict, reject
from facet_dagster.reports.rejected import Death, deaths_markdown
from facet_dagster.settings import Settings


def lost(key: str, reason: Reason) -> StageFact:
    why = reject(reason, "m")
    common = {"stage": "task", "key": key, "input_digest": key, "verdict": Verdict.REJECTED}
    return StageFact(reason=reason, result=StageResult(rejection=why, rejected_at="task", **common), **common)


def test_neighbours_died_of_the_same_reason_at_the_same_stage_and_are_bounded() -> None:
    ledger = MemoryLedger()
    facts = [lost(f"261130-{n}", Reason.TASK_FLAKY if n % 2 else Reason.TASK_TIMEOUT) for n in range(40)]
    ledger.append(facts)
    found = Neighbours(ledger).links(facts[1].result)
    assert list(found) == [f"alike 261130-{n}" for n in (3, 5, 7, 9, 11)]
    assert len(found) == MOST_ALIKE
    assert "/assets/task?view=partitions&partition=261130-3" in str(metadata(facts[1].result, found)["why"].value)
    accepted = StageResult(stage="task", key="k", input_digest="d", verdict=Verdict.ACCEPTED)
    assert Neighbours(ledger).links(accepted) == {}


def test_hostile_evidence_stays_in_its_cell() -> None:
    evil = "a | b ` c\n| d"
    common = {"stage": "task", "reason": "task.flaky", "component": "verifier", "cause": "", "message": evil}
    death = Death(key="k", families=(), skills=("a", "b"), rounds=2, cost=None, tokens=0, evidence=evil, **common)
    row = deaths_markdown([death], 5).splitlines()[2]
    assert row == "| k | task | task.flaky | verifier | 2 | unknown | `a ¦ b ' c ¦ d` |"


def test_the_asset_holds_the_table() -> None:
    result = rejected_tasks(settings=Settings(), ledger=MemoryLedger())
    assert isinstance(result, dg.MaterializeResult)
    assert result.metadata is not None
    assert result.metadata["rejected"] == 0
