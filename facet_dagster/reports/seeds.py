"""All seeds with the verdict that stands for them now."""

from __future__ import annotations

from facet_dagster.domain.facts import SeedFact
from facet_dagster.domain.outcome import Value, Verdict
from facet_dagster.funnel import Memo, current
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.ports import Ledger
from facet_dagster.settings import Settings


class SeedLine(Value):
    """A seed and how far it came: ``stage`` is the last one computed; ``reason`` is set when it was rejected."""

    key: str
    batch: str
    families: tuple[str, ...]
    stage: str = ""
    verdict: str = "not started"
    reason: str = ""


def seeds(settings: Settings, ledger: Ledger, batch: str = "") -> list[SeedLine]:
    """Every seed, sorted by key."""
    lines = {
        fact.key: SeedLine(key=fact.key, batch=fact.batch, families=tuple(fact.families))
        for fact in ledger.find(SeedFact)
        if batch in ("", fact.batch)
    }
    memo = Memo()
    for stage in seed_stages(settings):
        for key, result in current(stage, sorted(lines), ledger, memo).items():
            if result.verdict is not Verdict.NOT_REACHED:
                reason = result.rejection.reason.value if result.rejection else ""
                update = {"stage": stage.name, "verdict": result.verdict.value, "reason": reason}
                lines[key] = lines[key].model_copy(update=update)
    return [lines[key] for key in sorted(lines)]
