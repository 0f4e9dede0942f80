"""Who made a container or started a run: a text by which any process sees whether that one still lives."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def current_owner(proc: Path = Path("/proc")) -> str:
    """``<host>:<pid>:<start time of the process>:<boot id>`` of this process."""
    pid = os.getpid()
    return f"{platform.node()}:{pid}:{_start_time(pid, proc)}:{_boot_id(proc)}"


def is_dead(owner: str, proc: Path = Path("/proc")) -> bool:
    """True when the process ``owner`` names has certainly ended.

    An owner on another host, or a label we cannot read, is not ours to judge and counts as alive.
    """
    host, pid, start, boot = ["", "", "", *owner.rsplit(":", 3)][-4:]
    if host != platform.node() or not pid.isdigit():
        return False
    return boot != _boot_id(proc) or start != _start_time(int(pid), proc)


def _boot_id(proc: Path) -> str:
    try:
        return (proc / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


def _start_time(pid: int, proc: Path) -> str:
    """Clock ticks from boot to the start of ``pid``; empty when there is no such process.

    A process id is used again by the system, a pair of id and start time is not.
    """
    try:
        stat = (proc / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return "" if proc.is_dir() else _alive_without_proc(pid)
    # The name in brackets may itself hold blanks and brackets.
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in ("Z", "X") else fields[19]


def _alive_without_proc(pid: int) -> str:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        return "unknown"
    return "unknown"
