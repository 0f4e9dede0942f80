"""What people, and checks in their stead, decided about one seed: quarantine, retries, audits."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from facet_dagster.domain.facts import AuditFact, QuarantineFact, RetryFact, SampleFact
from facet_dagster.pipeline.quarantine import decided_by
from facet_dagster.ports import Ledger

Decision = QuarantineFact | RetryFact | SampleFact | AuditFact


def decisions(key: str, ledger: Ledger) -> list[dict[str, Any]]:
    """Each with ``kind``, ``note``, ``by`` and ``at`` (ISO), the oldest first."""
    found = list[tuple[datetime, dict[str, Any]]]()
    kinds: tuple[type[Decision], ...] = (QuarantineFact, RetryFact, SampleFact, AuditFact)
    for kind in kinds:
        times = ledger.values(kind, "at", key=key)
        for fact, (at,) in zip(ledger.find(kind, key=key), times, strict=True):
            found.append((at, {**_told(fact), "at": at.isoformat(timespec="seconds")}))
    return [told for _, told in sorted(found, key=lambda item: item[0])]


def _told(fact: Decision) -> dict[str, Any]:
    if isinstance(fact, QuarantineFact):
        return {"kind": "quarantine" if fact.quarantined else "lifted", "note": fact.note, "by": decided_by(fact)}
    if isinstance(fact, RetryFact):
        return {"kind": f"retry of {fact.stage}", "note": fact.note, "by": fact.name or f"a {fact.by}"}
    if isinstance(fact, SampleFact):
        return {"kind": "drawn for an audit", "note": fact.sample, "by": f"number {fact.number}"}
    return {"kind": f"audit: {'ok' if fact.ok else 'defect'}", "note": fact.note, "by": fact.name or "a person"}
