"""Many calls of one function, a bounded number of them in flight, with a pulse in between."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Generic, TypeVar

BEAT_SECONDS = 1.0
WAIT_SECONDS = 5.0
Item = TypeVar("Item")
Result = TypeVar("Result")


def bounded(
    one: Callable[[Item], Result],
    items: Sequence[Item],
    workers: int,
    *,
    stop: Callable[[], None],
    over: Callable[[], bool],
) -> Iterator[tuple[Item, Future[Result]]]:
    """Call ``one`` for all items, at most ``workers`` at once; gives each with its future as it ends.

    ``over`` is asked between ends, and at least once a second while something is in flight. When it says so, ``stop``
    is called, nothing new starts, and what is in flight is still given. After a bug or an interrupt ``stop`` is
    called as well, and what is in flight only ends.
    """
    queue = list(reversed(items))
    flying: dict[Future[Result], Item] = {}
    ended = False
    with ThreadPoolExecutor(workers) as pool:
        try:
            while queue or flying:
                if not ended and over():
                    ended = True
                    queue.clear()
                    stop()
                while queue and len(flying) < workers:
                    item = queue.pop()
                    flying[pool.submit(one, item)] = item
                done, _ = wait(flying, timeout=BEAT_SECONDS, return_when=FIRST_COMPLETED)
                for future in done:
                    yield flying.pop(future), future
        except BaseException:
            stop()
            raise


class Batch(Generic[Result]):
    """Results on their way to ``send``: a batch leaves with ``size`` of them, or when the oldest waited 5 s."""

    def __init__(self, send: Callable[[Sequence[Result]], None], size: int) -> None:
        self._send, self._size = send, size
        self._waiting: list[Result] = []
        self._since = 0.0

    def add(self, result: Result) -> None:
        self._since = self._since if self._waiting else time.monotonic()
        self._waiting.append(result)
        self.drain()

    def drain(self, least: int = 0) -> None:
        """Send what waits, if it is enough or old; ``least``: if there are so many."""
        old = time.monotonic() - self._since >= WAIT_SECONDS
        if len(self._waiting) >= (least or (1 if old else self._size)):
            batch, self._waiting = self._waiting, []
            self._send(batch)
