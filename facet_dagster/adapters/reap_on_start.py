"""What killed processes left is removed by the next one that starts, beside its work."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path

from filelock import FileLock, Timeout

from facet_dagster.errors import SandboxError
from facet_dagster.ports import Sandbox

SECONDS = 60.0
_STAMP = "reaped"


def reap_on_start(sandbox: Sandbox, folder: Path) -> threading.Thread:
    """Reap in a thread, at most once in SECONDS over all processes that share ``folder``.

    An engine that does not answer, or a folder that cannot be written, is told by the work itself.
    """

    def work() -> None:
        with contextlib.suppress(SandboxError, OSError):
            if _is_due(folder):
                sandbox.reap()

    thread = threading.Thread(target=work, name="facet-reaper", daemon=True)
    thread.start()
    return thread


def _is_due(folder: Path) -> bool:
    """Whether nobody reaped of late; if so, the others need not."""
    folder.mkdir(parents=True, exist_ok=True)
    stamp = folder / _STAMP
    try:
        with FileLock(folder / f"{_STAMP}.lock", timeout=0):
            if stamp.exists() and 0 <= time.time() - stamp.stat().st_mtime < SECONDS:
                return False
            stamp.touch()
            return True
    except Timeout:
        return False
