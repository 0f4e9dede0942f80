"""How many seeds of a batch a stage accepts: what decides the exit code of a run."""

from __future__ import annotations

import pytest

from facet_dagster.adapters.memory import MemoryArtifactStore, MemoryLedger
from facet_dagster.domain.facts import SeedFact
from facet_dagster.domain.outcome import Reason, reject
from facet_dagster.funnel import Outcome, plan, run_stage
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.reports.funnel import accepted
from facet_dagster.settings import Settings


@pytest.mark.parametrize("refused", [0, 1, 2])
def test_only_accepted_seeds_of_the_batch_count(refused: int) -> None:
    settings, ledger, keys = Settings(_env_file=None), MemoryLedger(), ["261130-a", "261130-b"]
    for key, batch in ((keys[0], "b"), (keys[1], "b"), ("261130-c", "other")):
        ledger.append([SeedFact(key=key, batch=batch, candidate="c", first="f", second="s", scenario="s", families=[])])

    def compute(key: str) -> Outcome:
        lost = key in keys[:refused]
        return Outcome(rejection=reject(Reason.SCENARIO_MISALIGNED, "no") if lost else None)

    stage = seed_stages(settings).seed
    work = plan(stage, keys, ledger).work
    run_stage(stage.name, work, compute, ledger=ledger, store=MemoryArtifactStore(), emit=lambda _: None)
    assert accepted(settings, ledger, "b", "seed") == 2 - refused
    assert accepted(settings, ledger, "b", "certificate") == 0
    assert accepted(settings, ledger, "other", "seed") == 0
