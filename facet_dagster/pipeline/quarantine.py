"""Which tasks are in quarantine: certified, and yet not given away, tried by agents or run again."""

from __future__ import annotations

from collections.abc import Mapping

from facet_dagster.domain.facts import QuarantineFact
from facet_dagster.domain.outcome import Reason, Rejection, reject
from facet_dagster.ports import Ledger


def quarantined(ledger: Ledger, key: str = "") -> dict[str, QuarantineFact]:
    """Seed -> the decision that keeps its task in quarantine now; of ``key`` alone where one is given."""
    last = {fact.key: fact for fact in ledger.find(QuarantineFact, **({"key": key} if key else {}))}
    return {key: fact for key, fact in last.items() if fact.quarantined}


def barred(ledger: Ledger) -> Mapping[str, Rejection]:
    """Why agents do not try a quarantined task, by seed."""
    return {key: _refusal(fact) for key, fact in quarantined(ledger).items()}


def _refusal(fact: QuarantineFact) -> Rejection:
    text = f"The task is in quarantine, by {decided_by(fact)}: {fact.note}"
    return reject(Reason.ROLLOUT_QUARANTINED, text, package=fact.package)


def decided_by(fact: QuarantineFact) -> str:
    """``a person``, ``the check NAME``, or a person's name."""
    if fact.by == "check":
        return f"the check {fact.name}".rstrip()
    return fact.name or "a person"


def quarantine(
    ledger: Ledger, key: str, note: str, *, lift: bool = False, by: str = "person", name: str = "", package: str = ""
) -> QuarantineFact | None:
    """Record the decision about ``key``; None when the task is in that state already."""
    with ledger.claim(f"quarantine/{key}"):
        before = ledger.find(QuarantineFact, key=key)
        if (before[-1].quarantined if before else False) is not lift:
            return None
        fact = QuarantineFact(
            key=key, round=len(before), quarantined=not lift, note=note, by=by, name=name, package=package
        )
        ledger.append([fact])
        return fact
