"""Harbor's command, interrupted when the process that started it dies: nobody else would end its containers.

python -m facet_harbor.run /path/to/harbor run ...
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Become Harbor. A thread counts as its starter: the one that waits for a job also started it."""
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)
        if os.getppid() != parent:  # it died before we asked
            sys.exit(130)
    # What a shell started in the background ignores it, and so would Harbor.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606


if __name__ == "__main__":
    main()
