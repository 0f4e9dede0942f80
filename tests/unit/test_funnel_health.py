"""The checks of the whole funnel find what they are for."""

from __future__ import annotations

import pytest

from facet_dagster.adapters.memory import MemoryArtifactStore, MemoryLedger
from facet_dagster.domain.facts import CandidateFact, RawSkillFact, SeedFact
from facet_dagster.domain.outcome import Verdict
from facet_dagster.reports.funnel import Funnel, Row
from facet_dagster.reports.funnel_health import orphans, out_of_band, wrong_sums
from facet_dagster.reports.funnel_picture import MOST_BYTES, funnel_picture
from facet_dagster.settings import Settings

SEED = SeedFact(key="261130-a", batch="b", candidate="c", first="x", second="y", scenario="s", families=[])
PAIR = CandidateFact(candidate="c", version="1", first="x", second="y", anchor="x", score=1.0, verdict=Verdict.ACCEPTED)


def report(validated: int, of: int = 100) -> Funnel:
    rows = (
        Row(name="entering_validation", label="Entering validation", count=of),
        Row(name="validated", label="Final validated tasks", count=validated, of="entering_validation"),
    )
    return Funnel(batch="", rows=rows)


@pytest.mark.parametrize(
    ("validated", "of", "wrong"), [(82, 100, False), (20, 100, True), (0, 2, False), (0, 0, False)]
)
def test_a_share_is_out_of_its_band_only_when_that_is_certain(validated: int, of: int, wrong: bool) -> None:
    assert bool(out_of_band(report(validated, of))) is wrong


def test_what_hangs_in_the_air_is_named() -> None:
    ledger, store = MemoryLedger(), MemoryArtifactStore()
    raws = [RawSkillFact(skill=skill, bucket="00", value={}) for skill in "xy"]
    ledger.append([SEED, PAIR, *raws])
    assert orphans(Settings(), ledger, store, [SEED.key]) == []
    assert orphans(Settings(), ledger, store, [SEED.key, "typo"]) == ["Partition typo is no seed: delete it."]
    assert "is no partition" in orphans(Settings(), ledger, store, [])[0]
    ledger.append([SEED.model_copy(update={"key": "261130-b", "first": "z", "candidate": "d"})])
    found = " ".join(orphans(Settings(), ledger, store, ["261130-a", "261130-b"]))
    assert "has a skill that was never collected" in found
    assert "comes from no candidate" in found


def test_seeds_that_wait_are_counted() -> None:
    ledger = MemoryLedger()
    ledger.append([SEED])
    assert wrong_sums(Settings(), ledger) == []


def test_the_picture_is_small() -> None:
    picture = funnel_picture(report(82))
    assert picture.startswith(b"\x89PNG")
    assert len(picture) <= MOST_BYTES
