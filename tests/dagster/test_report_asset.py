"""The asset ``report``: the page in the home folder, its main tables as Markdown."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from assets.reports import report
from benchmarks.made_up_attempts import fill_attempts
from benchmarks.made_up_run import Filler, fill_seeds, fill_skills
from facet_dagster.adapters.fsspec_artifact_store import FsspecArtifactStore
from facet_dagster.adapters.memory import MemoryLedger
from facet_dagster.adapters.token_counter import TokenizersTokenCounter
from facet_dagster.settings import Settings


def test_the_page_and_its_main_tables(tmp_path: Path) -> None:
    settings, ledger = Settings(home=tmp_path, teacher="openai/<b>x</b>", attempts=3), MemoryLedger()
    counter = TokenizersTokenCounter(None)
    filler = Filler(settings, ledger, 8, skills=60)
    keys, memo = fill_seeds(filler, fill_skills(filler))
    fill_attempts(filler, keys, memo, counter.name)
    done = dg.materialize(
        [report],
        resources={
            "settings": settings,
            "ledger": ledger,
            "store": FsspecArtifactStore(str(tmp_path / "artifacts")),
            "tokens": counter,
        },
    )
    found = done.asset_materializations_for_node("report")[0].metadata
    assert set(found) == {"page", "funnel", "rollouts", "tags", "difficulty", "sft", "repairs"}
    assert "Final validated tasks | 8" in str(found["funnel"].value)
    assert Path(str(found["page"].value)).read_text(encoding="utf-8").count("<section") == 18
