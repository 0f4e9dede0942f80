"""The asset `evaluation`: both tables as metadata, or a failure that says what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.s6_evaluation import evaluation
from facet_dagster.settings import Settings
from tests.fixtures.evaluation_world import World


def materialize(world: World, file: Path | None) -> Any:
    settings = Settings(evaluation=file)
    resources = {"settings": settings, "ledger": world.ledger, "store": world.store, "evaluators": world.open}
    return dg.materialize([evaluation], resources=resources, raise_on_error=False)


def test_means_and_both_tables_are_its_metadata(tmp_path: Path) -> None:
    world = World(tmp_path, base={"sort": [0] * 3, "count": [0] * 3}, tuned={"sort": [1] * 3, "count": [0] * 3})
    result = materialize(world, tmp_path / "evaluation.yaml")
    assert result.success
    (event,) = result.asset_materializations_for_node("evaluation")
    assert event.metadata["solved/tuned"].value == 0.5
    assert "FACET-4B: 24.72 %" in event.metadata["evaluation"].value


@pytest.mark.parametrize("named", [False, True])
def test_what_is_missing_fails_the_run(tmp_path: Path, named: bool) -> None:
    world = World(tmp_path, base={"sort": [None] * 9, "count": [0] * 3}, tuned={"sort": [0] * 3, "count": [0] * 3})
    result = materialize(world, tmp_path / "evaluation.yaml" if named else None)
    assert not result.success
    text = str(next(event for event in result.all_events if event.is_step_failure).event_specific_data)
    assert ("base/sort" if named else "FACET_EVALUATION") in text
