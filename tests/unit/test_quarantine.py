"""A task in quarantine stays certified, and nothing is made of it until it is let back in."""

from __future__ import annotations

from facet_dagster.adapters.memory import MemoryArtifactStore, MemoryLedger
from facet_dagster.domain.facts import QuarantineFact, SeedFact, StageFact
from facet_dagster.domain.outcome import Reason, StageResult, Verdict
from facet_dagster.funnel import current, plan
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.pipeline.quarantine import quarantine, quarantined
from facet_dagster.pipeline.rollouts import rollout_stages
from facet_dagster.ports import Ledger
from facet_dagster.reports.tasks import left_out
from facet_dagster.settings import Settings

KEYS = ("261130-aaaaaaaaaaaa", "261130-bbbbbbbbbbbb")


def ledger_with(settings: Settings, keys: tuple[str, ...] = KEYS) -> MemoryLedger:
    """Both seeds accepted by every stage, agents' attempts included."""
    ledger, store = MemoryLedger(), MemoryArtifactStore()
    for key in keys:
        ledger.append(
            [SeedFact(key=key, batch=key[:6], candidate=key, first="a", second="b", scenario="s", families=["x", "y"])]
        )
    for stage in (*seed_stages(settings), *rollout_stages(settings, "count")):
        for work in plan(stage, keys, ledger).work:
            result = StageResult(
                stage=stage.name,
                key=work.key,
                input_digest=work.input_digest,
                verdict=Verdict.ACCEPTED,
                output=store.put(f"{stage.name} {work.key}".encode()),
            )
            ledger.append(
                [
                    StageFact(
                        stage=stage.name,
                        key=work.key,
                        input_digest=work.input_digest,
                        verdict=Verdict.ACCEPTED,
                        result=result,
                    )
                ]
            )
    return ledger


def verdicts(settings: Settings, ledger: Ledger) -> dict[str, list[str]]:
    stages = rollout_stages(settings, "count")
    return {key: [str(current(stage, KEYS, ledger)[key].verdict) for stage in stages] for key in KEYS}


def test_agents_leave_a_quarantined_task_alone_and_what_they_made_of_it_does_not_count() -> None:
    settings = Settings()
    ledger = ledger_with(settings)
    assert quarantine(ledger, KEYS[0], "the port is taken on some hosts", name="Ada")
    assert verdicts(settings, ledger) == {KEYS[0]: ["not_reached"] * 2, KEYS[1]: ["accepted"] * 2}
    result = current(rollout_stages(settings, "count").trajectories, KEYS, ledger)[KEYS[0]]
    assert result.rejected_at == "rollouts"
    assert result.rejection is not None
    assert result.rejection.reason is Reason.ROLLOUT_QUARANTINED
    assert "by Ada: the port is taken on some hosts" in result.rejection.message
    assert current(seed_stages(settings).certificate, KEYS, ledger)[KEYS[0]].verdict is Verdict.ACCEPTED
    assert left_out(settings, ledger) == [KEYS[0]]
    assert left_out(settings, ledger, "261131") == []


def test_lifted_everything_stands_again_and_the_history_is_kept() -> None:
    settings = Settings()
    ledger = ledger_with(settings)
    quarantine(ledger, KEYS[0], "rotten", by="check", name="health", package="p")
    quarantine(ledger, KEYS[0], "mended", lift=True)
    assert verdicts(settings, ledger) == {key: ["accepted"] * 2 for key in KEYS}
    assert quarantined(ledger) == {}
    history = [(fact.round, fact.quarantined, fact.note, fact.by) for fact in ledger.find(QuarantineFact)]
    assert history == [(0, True, "rotten", "check"), (1, False, "mended", "person")]


def test_the_same_decision_twice_is_one_row() -> None:
    ledger = MemoryLedger()
    assert quarantine(ledger, KEYS[0], "first")
    assert quarantine(ledger, KEYS[0], "second") is None
    assert quarantine(ledger, KEYS[1], "never was in", lift=True) is None
    assert {key: fact.note for key, fact in quarantined(ledger).items()} == {KEYS[0]: "first"}
