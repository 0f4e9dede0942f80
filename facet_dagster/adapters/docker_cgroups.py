"""Control groups of containers and of BuildKit's steps, version 1 and 2: what they take, and limits put on them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from facet_dagster.domain.trial import Limits

ROOT = Path("/sys/fs/cgroup")
# Where engines put them: with cgroupfs, with systemd, and both below a user's own systemd.
_PLACES = ("*/buildkit/*", "docker/*", "*.slice/docker-*.scope", "user.slice/user-*/user@*/*/docker-*.scope")
# A step of BuildKit has 25 letters and digits, a container 64 hexadecimal digits.
_NAME = re.compile(r"(?:docker-)?([0-9a-z]{25}|[0-9a-f]{64})(?:\.scope)?")
_PERIOD = 100_000  # microseconds of a share of the CPUs


class Cgroup:
    """One control group; ``ident`` is the engine's name for what runs in it. One that is gone reads as empty."""

    def __init__(self, root: Path, place: Path, ident: str) -> None:
        self.ident = ident
        self._root, self._place = root, place
        self._first_version = _is_first_version(root)

    @property
    def memory(self) -> int:
        """Bytes that cannot be dropped: programs' own memory and shared memory, without the page cache."""
        numbers = dict(line.split(" ", 1) for line in self._lines("memory", "memory.stat") if " " in line)
        names = ("total_rss", "total_shmem") if self._first_version else ("anon", "shmem")
        return sum(int(numbers.get(name, 0)) for name in names)

    @property
    def tasks(self) -> int:
        """Processes and their threads."""
        return int(next(iter(self._lines("pids", "pids.current")), 0))

    @property
    def pids(self) -> list[int]:
        return [int(line) for line in self._lines("pids", "cgroup.procs")]

    def cap(self, limits: Limits) -> bool:
        """Let the kernel enforce memory, swap, processes and CPUs; False where this process may not."""
        share = int(limits.cpus * _PERIOD)
        if self._first_version:
            wanted = [
                ("memory", "memory.limit_in_bytes", str(limits.memory)),
                ("memory", "memory.memsw.limit_in_bytes", str(limits.memory)),
                ("cpu", "cpu.cfs_period_us", str(_PERIOD)),
                ("cpu", "cpu.cfs_quota_us", str(share)),
            ]
        else:
            wanted = [
                ("memory", "memory.swap.max", "0"),
                ("memory", "memory.max", str(limits.memory)),
                ("cpu", "cpu.max", f"{share} {_PERIOD}"),
            ]
        written = [self._write(*setting) for setting in [("pids", "pids.max", str(limits.pids)), *wanted]]
        return written[0]

    def _folder(self, controller: str) -> Path:
        return self._root / controller / self._place if self._first_version else self._root / self._place

    def _lines(self, controller: str, name: str) -> list[str]:
        with contextlib.suppress(OSError):
            return (self._folder(controller) / name).read_text().splitlines()
        return []

    def _write(self, controller: str, name: str, value: str) -> bool:
        try:
            # Not write_text, which would make a file that the kernel does not have.
            with (self._folder(controller) / name).open("r+") as file:
                file.write(value)
        except OSError:
            return False
        return True


def cgroups(root: Path = ROOT) -> Iterator[Cgroup]:
    """Those of all containers and steps that run now; none where the system has no control groups to see."""
    tree = root / "pids" if _is_first_version(root) else root
    for place in _PLACES:
        for folder in tree.glob(place):
            if name := _NAME.fullmatch(folder.name):
                yield Cgroup(root, folder.relative_to(tree), name[1])


def _is_first_version(root: Path) -> bool:
    return (root / "pids").is_dir()
