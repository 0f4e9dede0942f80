"""How processes end: a child may end what it has begun when the user interrupts, and signals run ``finally``."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any

INTERRUPTED = 130
_LOOK_SECONDS = 0.2


def end_orderly() -> None:
    """From now on SIGTERM, and SIGHUP of a closed terminal, end this process by SystemExit, so that what it made goes.

    Otherwise neither ``finally`` blocks nor finalizers would run. Main thread only.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _exit)


def _exit(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def run_child(command: Sequence[str], environment: Mapping[str, str], stdout: IO[Any] | None = None) -> int:
    """The child's exit code. Ctrl-C, or SIGTERM to this process, lets it finish the calls in flight; twice kills it.

    ``subprocess.run`` would kill it a quarter of a second after Ctrl-C. Here the handlers only note the signal:
    an exception out of a wait can lose the exit code.
    """
    noted: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, lambda got, _: noted.append(got))
    # In a group of its own: the terminal's Ctrl-C reaches this process alone, which passes it on once.
    process = subprocess.Popen(list(command), env=dict(environment), stdout=stdout, process_group=0)
    try:
        return _wait(process, noted)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _wait(process: subprocess.Popen[bytes], noted: list[int]) -> int:
    seen = 0
    while True:
        try:
            return process.wait(_LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            if len(noted) == seen:
                continue
            seen = len(noted)
        if seen > 1:
            process.kill()
        else:
            print("Stopping: calls in flight are finished and kept. Once more kills them.", file=sys.stderr)  # noqa: T201
            process.send_signal(signal.SIGINT)
