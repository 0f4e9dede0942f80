"""A draw as the paper's Table 5 counts: each stage with its interval, the reason of every loss, the paper beside it."""

from __future__ import annotations

from collections.abc import Mapping

from facet_dagster.domain.outcome import Value
from facet_dagster.pipeline.draw import Drawn, batch_of
from facet_dagster.ports import ArtifactStore, Ledger
from facet_dagster.reports.funnel import Funnel, funnel
from facet_dagster.reports.statistics import Rate, rate
from facet_dagster.settings import Settings

# Table 5: of how many, how many. "End to end" is Table 10's: validated tasks of 500 pairs.
PAPER: Mapping[str, tuple[int, int]] = {
    "first_build_ok": (6_630, 7_841),
    "environments": (7_504, 7_841),
    "first_pass_valid": (2_856, 7_446),
    "validated": (6_078, 7_446),
    "end_to_end": (350, 500),
}
_OF = {
    "first_build_ok": ("first_builds", "Built and started at first"),
    "environments": ("first_builds", "Environments"),
    "first_pass_valid": ("entering_validation", "Valid at first"),
    "validated": ("entering_validation", "Validated"),
    "certified": ("validated", "Certified"),
}


class Step(Value):
    """``losses``: reasons of what was lost on the way here since the step before; ``paper``: its share, or None."""

    name: str
    label: str
    rate: Rate
    paper: float | None
    losses: dict[str, int] = {}


class DrawReport(Value):
    """``unsettled`` seeds met trouble of the machine and have no result yet."""

    drawn: Drawn
    steps: tuple[Step, ...]
    unsettled: dict[str, str] = {}


def draw_report(
    drawn: Drawn, settings: Settings, ledger: Ledger, store: ArtifactStore, unsettled: Mapping[str, str]
) -> DrawReport:
    """Figures from what the ledger holds of the draw's batch."""
    found = funnel(settings, ledger, store, batch_of(drawn.number))
    accepted = Step(
        name="pairs",
        label="Pairs accepted",
        rate=rate(len(drawn.seeds), drawn.anchors),
        paper=None,
        losses=drawn.lost,
    )
    seeds = len(drawn.seeds)
    ends = [_end(name, label, found, seeds) for name, label in _ENDS]
    return DrawReport(drawn=drawn, steps=(accepted, *(_step(n, found) for n in _OF), *ends), unsettled=dict(unsettled))


_ENDS = (("validated", "Validated, of all pairs"), ("certified", "Certified, of all pairs"))


def _step(name: str, found: Funnel) -> Step:
    of, label = _OF[name]
    row = next(row for row in found.rows if row.name == name)
    before = next(row for row in found.rows if row.name == of)
    return Step(
        name=name,
        label=label,
        rate=rate(row.count, before.count),
        paper=_share(name),
        losses=(before.losses if name in {"first_build_ok", "first_pass_valid"} else {}) | row.losses,
    )


def _end(name: str, label: str, found: Funnel, seeds: int) -> Step:
    paper = _share("end_to_end") if name == "validated" else None
    return Step(name=f"{name}_of_all", label=label, rate=rate(found.count(name), seeds), paper=paper)


def _share(name: str) -> float | None:
    return PAPER[name][0] / PAPER[name][1] if name in PAPER else None
