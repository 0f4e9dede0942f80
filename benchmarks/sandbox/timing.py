"""Interleaved repetitions of several ways to do one thing, and what to say of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any


class Clock:
    """Seconds of one repetition, in all and by phase; ``cpu`` is what this process itself computed."""

    def __init__(self) -> None:
        self.total = self.cpu = 0.0
        self.phases: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.add(name, time.perf_counter() - began)

    def add(self, name: str, seconds: float) -> None:
        self.phases[name] = self.phases.get(name, 0.0) + seconds


Contender = Callable[[Clock], object]


def interleaved(
    contenders: Mapping[str, Contender], repeat: int, *, warm: int = 1, seldom: Mapping[str, int] | None = None
) -> dict[str, list[Clock]]:
    """A, B, C, A, B, C ...: the clocks of each contender without those of the first ``warm`` rounds.

    A contender in ``seldom`` takes part in that many rounds only, and has no warm-up.
    """
    clocks: dict[str, list[Clock]] = {name: [] for name in contenders}
    for turn in range(-warm, repeat):
        for name, act in contenders.items():
            rounds = (seldom or {}).get(name)
            if rounds is not None and not 0 <= turn < rounds:
                continue
            clock = Clock()
            began, computed = time.perf_counter(), time.process_time()
            act(clock)
            clock.total, clock.cpu = time.perf_counter() - began, time.process_time() - computed
            if turn >= 0:
                clocks[name].append(clock)
    return clocks


def told(clocks: Mapping[str, Sequence[Clock]]) -> dict[str, Any]:
    """Medians in ms: total with its quartiles, our own CPU, and each phase; ``rest`` is what no phase covers."""
    return {name: _told(runs) for name, runs in clocks.items()}


def ratio(clocks: Mapping[str, Sequence[Clock]], name: str, floor: str) -> float | None:
    """Median total of ``name`` over that of ``floor``; None when one of them did not run."""
    if not clocks.get(name) or not clocks.get(floor):
        return None
    return round(_median(c.total for c in clocks[name]) / _median(c.total for c in clocks[floor]), 3)


def _told(runs: Sequence[Clock]) -> dict[str, Any]:
    totals = sorted(clock.total for clock in runs)
    phases = {name: _median(c.phases.get(name, 0.0) for c in runs) for clock in runs for name in clock.phases}
    rest = _median(clock.total - sum(clock.phases.values()) for clock in runs)
    at = [round(totals[min(len(totals) - 1, len(totals) * n // 4)] * 1e3, 1) for n in (1, 3)]
    return {
        "median_ms": round(_median(totals) * 1e3, 1),
        "quartiles_ms": at,
        "own_cpu_ms": round(_median(clock.cpu for clock in runs) * 1e3, 1),
        "repetitions": len(runs),
        "phases_ms": {name: round(seconds * 1e3, 1) for name, seconds in {**phases, "rest": rest}.items()},
    }


def _median(values: Any) -> float:
    return statistics.median(values)
