"""Ends what runs too long or takes too much, from outside, whatever the program inside does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Generic, TypeVar

Reason = TypeVar("Reason")
_INTERVAL = 0.5


class Watchdog(Generic[Reason]):
    """While open, a thread that calls ``check`` and, once that gives a reason, ``end``.

    ``check`` gets the seconds since the start and returns None while all is well. ``end`` returns True when it
    ended something; otherwise it is tried again. ``reason`` is set only when ``end`` did its work. ``interval``
    is the pause between two checks, in seconds.
    """

    def __init__(
        self,
        seconds: float,
        check: Callable[[float], Reason | None],
        end: Callable[[], bool],
        *,
        interval: float = _INTERVAL,
    ) -> None:
        self.reason: Reason | None = None
        self._seconds, self._check, self._end, self._interval = seconds, check, end, interval
        self._done = threading.Event()
        self._started = time.monotonic()
        self._thread = threading.Thread(target=self._watch, name="facet-watchdog", daemon=True)

    def __enter__(self) -> Watchdog[Reason]:
        self._started = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._done.set()
        self._thread.join()

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._started

    def _watch(self) -> None:
        pause = min(self._interval, self._seconds)
        while not self._done.wait(pause):
            began = time.monotonic()
            reason = self._check(self.elapsed)
            if reason is not None and self._end():
                self.reason = reason
                return
            # A check that is slow on a big file system must not become the load itself.
            cost = time.monotonic() - began
            pause = max(0.05, min(max(self._interval, 10 * cost), self._seconds - self.elapsed))
