"""What the paper prints about orders and pipelines: Table 7, Figure 2b, Table 10."""

from __future__ import annotations

from collections.abc import Mapping

from facet_dagster.domain.causes import Cause
from facet_dagster.domain.outcome import Value
from facet_dagster.settings import Settings


class Published(Value):
    """Counts of ``seeds``; the causes are shares in percent of what was not valid at first. None: not printed.

    ``pass_1``, ``pass_3`` (percent) and ``commands`` are of rollouts.
    """

    name: str
    seeds: int
    drafts: int
    initially_valid: int | None = None
    validated: int
    causes: dict[str, float] = {}
    pass_1: float | None = None
    pass_3: float | None = None
    commands: float | None = None


def _causes(*shares: float) -> dict[str, float]:
    return {str(cause): share for cause, share in zip(Cause, shares, strict=True)}


_ORDERS: Mapping[str, Published] = {
    "forward": Published(
        name="Forward",
        seeds=100,
        drafts=99,
        initially_valid=46,
        validated=83,
        causes=_causes(37.7, 15.1, 9.4, 18.9, 18.9, 0.0),
    ),
    "reverse": Published(
        name="Reverse",
        seeds=100,
        drafts=91,
        initially_valid=22,
        validated=63,
        causes=_causes(56.5, 15.9, 7.2, 11.6, 8.7, 0.0),
    ),
    # The share of solutions carries no label in the figure: it is what is left of 100.
    "joint": Published(
        name="Joint",
        seeds=100,
        drafts=96,
        initially_valid=36,
        validated=65,
        causes=_causes(13.3, 38.3, 21.7, 6.7, 5.0, 15.0),
    ),
}
_PIPELINES: Mapping[str, Published] = {
    "direct": Published(name="Baseline", seeds=500, drafts=437, validated=78, pass_1=80.8, pass_3=85.9, commands=12.8),
    "recording": Published(name="TW", seeds=500, drafts=449, validated=139, pass_1=58.8, pass_3=64.0, commands=17.0),
    "facet": Published(name="FACET", seeds=500, drafts=395, validated=350, pass_1=25.1, pass_3=33.1, commands=21.5),
}


def published(kind: str, settings: Settings) -> Published | None:
    """The paper's figures for an arm of this ``kind`` (orders or pipelines); None where it has none."""
    if kind == "pipelines":
        return _PIPELINES[settings.pipeline]
    return _ORDERS[settings.order] if settings.pipeline == "facet" else None


def printed(kind: str) -> tuple[Published, ...]:
    """All arms of this ``kind`` (orders or pipelines) that the paper prints."""
    return tuple((_PIPELINES if kind == "pipelines" else _ORDERS).values())
