"""What share of the seeds each stage accepts: of one batch, of the one before it, and of all before it.

A batch is judged by the results that are current, so under the prompts, models and settings of now; earlier batches by
the last result that they got, under whatever they had.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from facet_dagster.domain.facts import SeedFact, StageFact
from facet_dagster.domain.outcome import Value, Verdict
from facet_dagster.funnel import Memo, Stage, current
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.pipeline.rollouts import rollout_stages
from facet_dagster.ports import Ledger
from facet_dagster.reports.statistics import Rate, difference, rate
from facet_dagster.settings import Settings

ALPHA = 0.05  # that any stage is called dropped by chance, over all stages together
SERIOUS = 0.1


class Yield(Value):
    """One stage: accepted seeds of those that it judged. ``low`` and ``high`` bound ``now`` minus ``before``.

    ``dropped``: the whole interval lies below zero; ``serious``: at least ten points below. The intervals of all stages
    together hold at 95 %.
    """

    stage: str
    now: Rate
    last: Rate
    before: Rate
    low: float | None = None
    high: float | None = None
    dropped: bool = False
    serious: bool = False


class Yields(Value):
    """All stages of ``batch``, in order; ``last`` is the batch before it."""

    batch: str
    last: str
    lines: tuple[Yield, ...]

    @property
    def dropped(self) -> list[Yield]:
        return [line for line in self.lines if line.dropped]


def yields(settings: Settings, tokenizer: str, ledger: Ledger, batch: str = "") -> Yields:
    """Of ``batch``, or of the newest one; batches are in the order in which they were selected."""
    keys = dict[str, list[str]]()
    for fact in ledger.find(SeedFact):
        keys.setdefault(fact.batch, []).append(fact.key)
    batch = batch or next(reversed(keys), "")
    order = list(keys)
    earlier = order[: order.index(batch)] if batch in keys else order
    last = earlier[-1] if earlier else ""
    old = [key for name in earlier for key in keys[name]]
    stages = (*seed_stages(settings), *rollout_stages(settings, tokenizer))
    memo = Memo()
    lines = [
        _line(
            stage, _current(stage, keys.get(batch, []), ledger, memo), _stored(stage, old, ledger), keys.get(last, [])
        )
        for stage in stages
    ]
    return Yields(batch=batch, last=last, lines=_judged(lines))


def _current(stage: Stage, keys: list[str], ledger: Ledger, memo: Memo) -> Mapping[str, str]:
    return {key: result.verdict for key, result in current(stage, keys, ledger, memo).items()}


def _stored(stage: Stage, keys: list[str], ledger: Ledger) -> Mapping[str, str]:
    """Key -> its last verdict."""
    return dict(ledger.values(StageFact, "key", "verdict", stage=stage.name, key=keys)) if keys else {}


def _line(stage: Stage, now: Mapping[str, str], old: Mapping[str, str], last: Collection[str]) -> Yield:
    recent = {key: old[key] for key in last if key in old}
    return Yield(stage=stage.name, now=_rate(now), last=_rate(recent), before=_rate(old))


def _rate(verdicts: Mapping[str, str]) -> Rate:
    judged = [verdict for verdict in verdicts.values() if verdict != Verdict.NOT_REACHED]
    return rate(judged.count(Verdict.ACCEPTED), len(judged))


def _judged(lines: list[Yield]) -> tuple[Yield, ...]:
    """With the bounds of the differences; each stage has its share of the 5 %."""
    compared = [line for line in lines if line.now.of and line.before.of]
    confidence = 1 - ALPHA / max(1, len(compared))
    return tuple(_compared(line, confidence) for line in lines)


def _compared(line: Yield, confidence: float) -> Yield:
    found = difference(line.now.count, line.now.of, line.before.count, line.before.of, confidence)
    if found is None:
        return line
    update = {
        "low": round(found.low, 4),
        "high": round(found.high, 4),
        "dropped": found.high < 0,
        "serious": found.high < -SERIOUS,
    }
    return line.model_copy(update=update)


def yields_markdown(found: Yields) -> str:
    """As a table."""
    head = f"| stage | {found.batch or 'this batch'} | {found.last or 'the one before'} | all before | difference |"
    rows = [
        f"| {line.stage} | {_text(line.now)} | {_text(line.last)} | {_text(line.before)} | {_bounds(line)} |"
        for line in found.lines
    ]
    return "\n".join([head, "|---|---|---|---|---|", *rows])


def _text(found: Rate) -> str:
    return f"{found.count}/{found.of} ({100 * found.rate:.0f} %)" if found.rate is not None else "none"


def _bounds(line: Yield) -> str:
    if line.low is None or line.high is None:
        return ""
    mark = " **dropped**" if line.dropped else ""
    return f"{100 * line.low:+.0f} to {100 * line.high:+.0f} points{mark}"
