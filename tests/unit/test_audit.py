"""A sample for people: which tasks, and what their verdicts say."""

from __future__ import annotations

from collections import Counter

import pytest

from facet_dagster.adapters.memory import MemoryLedger
from facet_dagster.domain.facts import AuditFact, SampleFact
from facet_dagster.errors import ConfigError
from facet_dagster.reports.audit import draw, record, report
from facet_dagster.reports.statistics import rate
from facet_dagster.reports.tasks import TaskLine


def line(number: int, family: str, repairs: int) -> TaskLine:
    key = f"261130-{number:012x}"
    common = {"title": "t", "checks": 3, "level": "basic", "standin": False}
    return TaskLine(key=key, families=(family, "x"), repairs=repairs, package=f"p{number}", **common)


LINES = [line(n, "data", 0) for n in range(60)] + [line(n, "data", 2) for n in range(60, 90)] + [line(99, "web", 0)]


def test_the_draw_is_stratified_in_proportion_recorded_and_repeatable() -> None:
    ledger = MemoryLedger()
    found = draw(LINES, 19, 7, ledger)
    assert Counter((one.family, one.repaired) for one in found) == {
        ("data", False): 12,
        ("data", True): 6,
        ("web", False): 1,
    }
    assert {(one.family, one.repaired): one.of for one in found} == {
        ("data", False): 60,
        ("data", True): 30,
        ("web", False): 1,
    }
    assert draw(LINES, 19, 7, ledger) == found
    assert ledger.find(SampleFact) == found
    assert {one.key for one in draw(LINES, 19, 8, ledger)} != {one.key for one in found}
    assert len(draw(LINES, 500, 1, ledger)) == len(LINES)
    assert len(draw(LINES, 2, 1, ledger)) == 2


def test_the_defect_rate_has_intervals_and_weighs_strata_by_their_tasks() -> None:
    ledger = MemoryLedger()
    drawn = {one.key for one in draw(LINES, 19, 7, ledger)}
    chosen = [one for one in LINES if one.key in drawn]
    first = [one for one in chosen if one.families[0] == "data" and not one.repairs]
    for one in chosen:
        record(one, ledger, ok=one not in first[:6], note="n")
    found = report(ledger)
    assert found.plain == rate(6, 19)
    assert found.open == ()
    assert sorted(found.defects) == sorted(one.key for one in first[:6])
    assert found.weighted == pytest.approx(60 / 91 * 6 / 12)
    assert found.low is not None
    assert found.high is not None
    assert 0 < found.low < found.weighted < found.high < 1
    by = {(one.family, one.repaired): one.defects for one in found.strata}
    assert by == {("data", False): rate(6, 12), ("data", True): rate(0, 6), ("web", False): rate(0, 1)}


def test_the_last_word_counts_and_a_verdict_is_about_one_version() -> None:
    ledger = MemoryLedger()
    (drawn,) = draw(LINES[:1], 1, 0, ledger)
    record(LINES[0].model_copy(update={"package": "older"}), ledger, ok=False, note="of another version")
    assert report(ledger).open == (drawn.key,)
    assert report(ledger).weighted is None
    record(LINES[0], ledger, ok=False, note="wrong unit")
    record(LINES[0], ledger, ok=True, note="no, it is right")
    assert report(ledger, drawn.sample[:4]).plain == rate(0, 1)
    assert [(fact.package, fact.round, fact.ok) for fact in ledger.find(AuditFact)] == [
        ("older", 0, False),
        ("p0", 0, False),
        ("p0", 1, True),
    ]


def test_without_a_sample_or_a_task_it_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match="audit sample"):
        report(MemoryLedger())
    with pytest.raises(ConfigError, match="no certified task"):
        draw([], 5, 0, MemoryLedger())
