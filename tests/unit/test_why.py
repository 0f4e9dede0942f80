from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from facet_dagster.adapters.memory import MemoryArtifactStore, MemoryLedger
from facet_dagster.cli import print_why
from facet_dagster.domain.facts import CheckFact, SeedFact, StageFact, TrialFact
from facet_dagster.domain.outcome import StageResult, Verdict
from facet_dagster.funnel import Memo, plan
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.reports.why import why
from facet_dagster.settings import Settings
from tests.fixtures import task_example as example

KEY = example.SEED.key
REMARK = "A mutant is accepted: out/totals.json: a number changed (file_mutant/out/totals.json:number)."


def trial(kind: str, reward: int, **update: Any) -> TrialFact:
    values = {"stage": "certificate", "key": KEY, "draft": "d", "round": 0, "repeat": 0, "exit_code": 0, "seconds": 0.1}
    return TrialFact(kind=kind, reward=reward, **{**values, **update})


def settled(ledger: MemoryLedger, settings: Settings, store: MemoryArtifactStore) -> None:
    """Every stage of the seed accepted; the certificate has one remark."""
    certificate = example.CERTIFIED.model_copy(update={"remarks": (REMARK,)})
    for stage in seed_stages(settings):
        (work,) = plan(stage, [KEY], ledger, Memo()).work
        result = StageResult(
            stage=stage.name,
            key=KEY,
            input_digest=work.input_digest,
            verdict=Verdict.ACCEPTED,
            output=store.put(certificate.model_dump_json().encode()),
        )
        fact = StageFact(
            stage=stage.name, key=KEY, input_digest=work.input_digest, verdict=result.verdict, result=result
        )
        ledger.append([fact])


def test_probes_that_did_not_come_out_as_wanted_are_shown_with_the_remarks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger, store, settings = MemoryLedger(), MemoryArtifactStore(), Settings(home=tmp_path)
    ledger.append(
        [
            SeedFact(
                key=KEY, batch="b", candidate="c", first="skill-a", second="skill-b", scenario="s", families=["data"]
            )
        ]
    )
    settled(ledger, settings, store)
    refused = trial("equivalent/out/totals.json:indent", 0)
    trials = [trial("oracle", 1), trial("attack/empty", 0), trial("file_mutant/out/totals.json:number", 1), refused]
    check = CheckFact(trial=refused.fact_id, check="C3", requirement="R1", status="fail", message="indented")
    ledger.append([*trials, check])

    story = why(KEY, settings, ledger, store)
    assert [t["kind"] for t in story.trials if not t["ok"]] == [trials[2].kind, refused.kind]
    assert story.remarks == (REMARK,)
    print_why(story)
    told = capsys.readouterr().out
    assert "trial equivalent/out/totals.json:indent round 0: reward 0, checks not passed: C3" in told
    assert "2 of 4 probes in the ledger came out as wanted" in told
    assert f"remark: {REMARK}" in told
    assert "attack/empty" not in told
