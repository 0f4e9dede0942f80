"""A requeue: a stored result is computed again with new replies of the models, and the old one stays."""

from __future__ import annotations

from collections.abc import Sequence

from facet_dagster.domain.facts import RetryFact
from facet_dagster.domain.outcome import StageResult, Value, Verdict
from facet_dagster.errors import ConfigError
from facet_dagster.funnel import Memo, Stage, current, plan
from facet_dagster.ports import Ledger


class Retried(Value):
    """What of one seed will be computed again. ``waiting``: that was asked for before, and has not been done yet."""

    key: str
    stage: str
    round: int
    reason: str = ""
    waiting: bool = False


def retry(
    keys: Sequence[str],
    stages: Sequence[Stage],
    ledger: Ledger,
    *,
    stage: str = "",
    note: str = "",
    by: str = "person",
    name: str = "",
) -> list[Retried]:
    """Ask for the rejected stage of each seed again, or for ``stage``; nothing is computed here.

    Under another prompt, setting or input the retry means nothing: that is a version of its own anyway. Raises
    ConfigError, and records nothing, when a seed has nothing to retry.
    """
    memo = Memo()
    found = [_of_seed(key, keys, stages, ledger, memo, stage) for key in keys]
    facts = [
        RetryFact(stage=one.stage, key=one.key, input_digest=first, round=one.round, note=note, by=by, name=name)
        for one, first in found
        if not one.waiting
    ]
    ledger.append(facts)
    return [one for one, _ in found]


def _of_seed(
    key: str, keys: Sequence[str], stages: Sequence[Stage], ledger: Ledger, memo: Memo, wanted: str
) -> tuple[Retried, str]:
    for stage in stages:
        result = current(stage, keys, ledger, memo).get(key)
        here = stage.name == wanted if wanted else result is None or result.verdict is Verdict.REJECTED
        if not here:
            continue
        planned = plan(stage, [key], ledger, _alone(memo, key))
        if not planned.work or planned.work[0].upstream is not None:
            break
        item = planned.work[0]
        if result is not None:
            return Retried(key=key, stage=stage.name, round=item.retry + 1, reason=_reason(result)), item.first
        if item.retry:
            return Retried(key=key, stage=stage.name, round=item.retry, waiting=True), item.first
        break
    what = f"no result of stage {wanted}" if wanted else "no rejection"
    raise ConfigError(f"Seed {key} has {what} that could be retried: `facet why {key}` tells how far it came")


def _alone(memo: Memo, key: str) -> Memo:
    """``memo`` for one key."""
    return Memo({name: {key: found[key]} for name, found in memo.items() if key in found})


def _reason(result: StageResult) -> str:
    return str(result.rejection.reason) if result.rejection else ""
