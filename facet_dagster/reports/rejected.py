"""All deaths: which seeds were rejected, where, why, by whose fault, after how many rounds and at what cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from facet_dagster.domain.causes import cause_of
from facet_dagster.domain.facts import ModelCallFact, SeedFact
from facet_dagster.domain.outcome import Rejection, StageResult, Value, Verdict
from facet_dagster.funnel import Memo, current
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.ports import Ledger
from facet_dagster.settings import Settings

LINE = 160  # characters of evidence
ROUNDS = ("repairs", "certificate_repairs")


class Death(Value):
    """A rejected seed. ``cost`` (USD) and ``tokens`` are those of all its model calls, ``cost`` None where unknown."""

    key: str
    families: tuple[str, ...]
    skills: tuple[str, str]
    stage: str
    reason: str
    component: str
    cause: str
    rounds: int
    cost: float | None
    tokens: int
    message: str
    evidence: str


def rejected(settings: Settings, ledger: Ledger, *, reason: str = "", family: str = "", batch: str = "") -> list[Death]:
    """Every rejected seed, by key; ``reason`` is a beginning, ``family`` one of the seed's two."""
    seeds = {fact.key: fact for fact in ledger.find(SeedFact) if batch in ("", fact.batch)}
    keys, memo, lost = sorted(seeds), Memo(), dict[str, StageResult]()
    for stage in seed_stages(settings):
        for key, result in current(stage, keys, ledger, memo).items():
            if result.verdict is Verdict.REJECTED:
                lost.setdefault(key, result)
    paid = _paid(ledger, sorted(lost))
    found = [_death(seeds[key], result, paid[key]) for key, result in sorted(lost.items())]
    return [one for one in found if one.reason.startswith(reason) and (not family or family in one.families)]


def _paid(ledger: Ledger, keys: Sequence[str]) -> dict[str, tuple[float | None, int]]:
    found = defaultdict[str, tuple[float | None, int]](lambda: (0.0, 0))
    columns = ("subject", "cost", "prompt_tokens", "completion_tokens")
    for key, cost, asked, answered in ledger.values(ModelCallFact, *columns, subject=list(keys)):
        before, tokens = found[key]
        found[key] = (None if before is None or cost is None else before + cost, tokens + asked + answered)
    return found


def _death(seed: SeedFact, result: StageResult, paid: tuple[float | None, int]) -> Death:
    why = result.rejection
    assert why is not None
    return Death(
        key=seed.key,
        families=tuple(dict.fromkeys(seed.families)),
        skills=(seed.first, seed.second),
        stage=result.stage,
        reason=why.reason,
        component=why.component,
        cause=cause_of(why) or "",
        rounds=int(sum(result.numbers.get(name, 0) for name in ROUNDS)),
        cost=paid[0],
        tokens=paid[1],
        message=why.message,
        evidence=evidence_line(why),
    )


def evidence_line(why: Rejection) -> str:
    """The first line of evidence that says something, else the message."""
    texts = (_first(value) for value in why.evidence.values())
    return next((text for text in texts if text), why.message)[:LINE]


def _first(value: Any) -> str:
    text = " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value or "")
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def deaths_markdown(found: Sequence[Death], most: int) -> str:
    """The table as Markdown, ``most`` rows."""
    lines = ["| Seed | Stage | Reason | Component | Rounds | Cost | Evidence |", "|---|---|---|---|---:|---:|---|"]
    for one in found[:most]:
        cost = "unknown" if one.cost is None else f"{one.cost:.4f}"
        cells = (one.key, one.stage, one.reason, one.component, str(one.rounds), cost, _cell(one.evidence))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Hostile text as one cell that is only text."""
    return "`" + text.replace("`", "'").replace("|", "¦").replace("\n", " ") + "`" if text else ""
