"""All seeds with the verdict that stands for them now."""

from __future__ import annotations

from collections.abc import Mapping

from facet_dagster.domain.facts import SeedFact
from facet_dagster.domain.outcome import Value, Verdict
from facet_dagster.funnel import Memo, current
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.ports import Ledger
from facet_dagster.reports.provenance import licences, shared_alike
from facet_dagster.settings import Settings


class SeedLine(Value):
    """A seed and how far it came: ``stage`` is the last one computed; ``reason`` is set when it was rejected.

    ``licences`` are those of its two skills, in their order; ``share_alike``: one of them asks for the same licence.
    """

    key: str
    batch: str
    families: tuple[str, ...]
    licences: tuple[str, ...] = ()
    share_alike: bool = False
    stage: str = ""
    verdict: str = "not started"
    reason: str = ""


def seeds(settings: Settings, ledger: Ledger, batch: str = "") -> list[SeedLine]:
    """Every seed, sorted by key."""
    facts = [fact for fact in ledger.find(SeedFact) if batch in ("", fact.batch)]
    known = licences({skill for fact in facts for skill in (fact.first, fact.second)}, ledger)
    lines = {fact.key: _line(fact, known) for fact in facts}
    memo = Memo()
    for stage in seed_stages(settings):
        for key, result in current(stage, sorted(lines), ledger, memo).items():
            if result.verdict is not Verdict.NOT_REACHED:
                reason = result.rejection.reason.value if result.rejection else ""
                update = {"stage": stage.name, "verdict": result.verdict.value, "reason": reason}
                lines[key] = lines[key].model_copy(update=update)
    return [lines[key] for key in sorted(lines)]


def _line(fact: SeedFact, known: Mapping[str, str]) -> SeedLine:
    under = tuple(known.get(skill, "") for skill in (fact.first, fact.second))
    return SeedLine(
        key=fact.key,
        batch=fact.batch,
        families=tuple(fact.families),
        licences=under,
        share_alike=shared_alike(under),
    )
