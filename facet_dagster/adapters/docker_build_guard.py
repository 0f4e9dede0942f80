"""Keeps a build's steps within limits that BuildKit itself does not know.

BuildKit obeys no limit of the engine's API, but runs each RUN step in a control group of its own. Where this
process may write there (root), the kernel gets the limits; everywhere it is watched what a step takes. An
engine on another machine shows nothing of this: there the time and the disk's watermark are what is left.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from facet_dagster.adapters.docker_cgroups import ROOT, Cgroup, cgroups
from facet_dagster.adapters.docker_context import run_commands
from facet_dagster.domain.trial import Limits

Excess = Literal["memory", "processes", "disk"]
# The kernel's limits are wider, so that a step is seen over its own and its end can be told from a crash.
_WIDER, _WIDER_TASKS = 1.25, 2
_ENTRY = 4096  # bytes that a file counts at least, for the inodes it takes
_GONE_SECONDS, _GONE_PAUSE = 5.0, 0.05
_DISK_INTERVAL = 0.5
# The mount of "/": a program that is just being started still shows the host's mounts, other steps' among them.
_UPPER = re.compile(r"^\d+ \d+ \S+ / / .* - overlay \S+ \S*\bupperdir=([^, \n]+)", re.MULTILINE)


class BuildGuard:
    """One build's steps. Made before the build begins: what runs already is not ours.

    A step is known by its command, which is that of a RUN line of ``dockerfile``; a container of the classic
    builder by its id. ``data_root`` is the engine's folder, None for an engine on another machine.
    """

    def __init__(
        self, dockerfile: str, limits: Limits, data_root: Path | None, *, root: Path = ROOT, proc: Path = Path("/proc")
    ) -> None:
        self._commands, self._limits, self._data_root = run_commands(dockerfile), limits, data_root
        self._root, self._proc = root, proc
        self._mine: dict[str, Cgroup] = {}
        self._others = {group.ident for group in self._all()}
        self._disk_due = 0.0
        self._out_of_memory_kills = self._oom_kills()

    def check(self, container: str | None = None) -> Excess | None:
        """What is over its limit now. ``container`` is the classic builder's, its id or the start of it."""
        self._recognise(container)
        for group in self._mine.values():
            if group.memory > self._limits.memory:
                return "memory"
            if group.tasks > self._limits.pids:
                return "processes"
        return "disk" if self._is_disk_over() else None

    def _recognise(self, container: str | None) -> None:
        for group in self._all():
            if group.ident not in self._others and group.ident not in self._mine and self._is_ours(group, container):
                group.cap(self._limits.model_copy(update={"memory": self._wider_memory, "pids": self._wider_pids}))
                self._mine[group.ident] = group

    def was_out_of_memory(self) -> bool:
        """Whether the kernel ended a program for its memory since the build began."""
        return self._oom_kills() > self._out_of_memory_kills

    def wait_until_gone(self) -> None:
        """After a build was broken off: until its processes have ended.

        A step that another build needs goes on; one whose engine died nobody else would end.
        """
        deadline = time.monotonic() + _GONE_SECONDS
        while time.monotonic() < deadline:
            self._recognise(None)  # what began in the last moment was not looked at yet
            left = [group for group in self._mine.values() if group.pids]
            if not left:
                return
            for group in left:
                self._end_orphans(group)
            time.sleep(_GONE_PAUSE)

    def _end_orphans(self, group: Cgroup) -> None:
        """A step's first process is a child of its runtime, or of nobody when that died together with the engine."""
        pids = group.pids
        if any(self._parent(pid) == 1 for pid in pids):
            for pid in pids:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)

    def _parent(self, pid: int) -> int:
        """0 when there is no such process."""
        with contextlib.suppress(OSError, ValueError):
            stat = (self._proc / str(pid) / "stat").read_text(errors="replace")
            # The name in brackets may itself hold blanks and brackets.
            return int(stat.rpartition(")")[2].split()[1])
        return 0

    @property
    def _wider_memory(self) -> int:
        return int(self._limits.memory * _WIDER)

    @property
    def _wider_pids(self) -> int:
        return self._limits.pids * _WIDER_TASKS

    def _all(self) -> Iterator[Cgroup]:
        return cgroups(self._root) if self._data_root is not None else iter(())

    def _is_ours(self, group: Cgroup, container: str | None) -> bool:
        if container and group.ident.startswith(container):
            return True
        return any(_plain(command) in self._commands for command in self._commands_of(group))

    def _commands_of(self, group: Cgroup) -> Iterator[list[str]]:
        """The step's command as the engine started it, for those who may read it, or as its processes show it."""
        assert self._data_root is not None
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
            file = self._data_root / "buildkit" / "executor" / group.ident / "config.json"
            yield list(json.loads(file.read_bytes())["process"]["args"])
        for pid in group.pids[:8]:
            with contextlib.suppress(OSError):
                text = (self._proc / str(pid) / "cmdline").read_bytes().decode(errors="replace")
                yield text.rstrip("\0").split("\0")

    def _is_disk_over(self) -> bool:
        began = time.monotonic()
        if began < self._disk_due:
            return False
        over = any(_written(folder, self._limits.disk) > self._limits.disk for folder in self._uppers())
        # A count that is slow on many files must not become the load itself.
        self._disk_due = time.monotonic() + max(_DISK_INTERVAL, 5 * (time.monotonic() - began))
        return over

    def _uppers(self) -> Iterator[Path]:
        """Where the file systems of the steps keep what they write."""
        for group in self._mine.values():
            for pid in group.pids[:1]:
                with contextlib.suppress(OSError):
                    mounts = (self._proc / str(pid) / "mountinfo").read_text(errors="replace")
                    if (upper := _UPPER.search(mounts)) and self._is_the_engines(Path(upper[1])):
                        yield Path(upper[1])

    def _is_the_engines(self, folder: Path) -> bool:
        return self._data_root is not None and folder.is_relative_to(self._data_root)

    def _oom_kills(self) -> int:
        with contextlib.suppress(OSError):
            found = re.search(r"^oom_kill (\d+)", (self._proc / "vmstat").read_text(), re.MULTILINE)
            return int(found[1]) if found else 0
        return 0


def _plain(command: Sequence[str]) -> str:
    """A command without blanks: of a shell's ``-c`` only the script, as in the Dockerfile."""
    script = command[-1:] if len(command) > 2 and re.fullmatch(r"-\w*c", command[-2]) else command
    return "".join("".join(script).split())


def _written(folder: Path, enough: int) -> int:
    """Bytes that the files below ``folder`` take; counting stops above ``enough``."""
    total, folders = 0, [str(folder)]
    while folders and total <= enough:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    total += max(_ENTRY, entry.stat(follow_symlinks=False).st_blocks * 512)
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
    return total
