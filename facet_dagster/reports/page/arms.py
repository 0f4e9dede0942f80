"""Which settings the same seeds went through: the arms of Tables 7 and 10, found in what the ledger holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, get_args

from facet_dagster.domain.outcome import Verdict
from facet_dagster.domain.task import Order, Pipeline
from facet_dagster.funnel import Memo, current
from facet_dagster.pipeline.experiment import Arm, orders, pipelines
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.reports.experiment import Experiment, experiment
from facet_dagster.reports.page.home import Home

_FIRST = {"orders": "task_draft", "pipelines": "scenario"}
MOST = 500  # seeds that are compared, the oldest first: as many as Table 10 has pairs


class Compared(NamedTuple):
    """Arms over the seeds that all of them have settled. ``left`` names arms without any result."""

    found: Experiment
    arms: tuple[Arm, ...]
    left: tuple[str, ...]


def compared_orders(home: Home) -> Compared:
    """The orders of the pipeline that is set; none of a recording, which has an order of its own."""
    if home.settings.pipeline == "recording":
        return _compare("orders", [], [], home)
    names: tuple[Order, ...] = get_args(Order)
    return _compare("orders", orders(home.settings, names), names, home)


def compared_pipelines(home: Home) -> Compared:
    names: tuple[Pipeline, ...] = get_args(Pipeline)
    return _compare("pipelines", pipelines(home.settings, ("direct", "recording", "facet")), names, home)


def _compare(kind: str, arms: Sequence[Arm], names: Sequence[str], home: Home) -> Compared:
    settled = {arm.name: _settled(arm, _FIRST[kind], home) for arm in arms}
    known = [arm for arm in arms if settled[arm.name]]
    common = set(home.seeds)
    for arm in known:
        common &= settled[arm.name]
    keys = sorted(common)[:MOST] if known else []
    left = tuple(name for name in names if not settled.get(name))
    found = experiment(kind, known if keys else [], keys, ledger=home.ledger, store=home.store, until="task")
    return Compared(found, tuple(known), left)


def _settled(arm: Arm, first: str, home: Home) -> set[str]:
    """Seeds that came to stage ``first``, where arms begin to differ, and have a current end of stage task."""
    ours = {stage.name: stage for stage in seed_stages(home.settings)}
    keys, memo = list(home.seeds), Memo()
    for stage in seed_stages(arm.settings):
        if stage == ours[stage.name]:
            memo[stage.name] = home.memo[stage.name]
        found = current(stage, keys, home.ledger, memo)
        if stage.name == first:
            keys = [key for key in keys if key in found and found[key].verdict is not Verdict.NOT_REACHED]
        if stage.name == "task" or not keys:
            break
    return {key for key in keys if key in found}
