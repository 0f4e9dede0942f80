"""Limits as the engine's host configuration. Pure."""

from __future__ import annotations

from typing import Any

from facet_dagster.domain.trial import Limits

# What a script run as root needs to install files, change owners and become another user.
ROOT_CAPABILITIES = ("CHOWN", "SETUID", "SETGID", "DAC_OVERRIDE", "FOWNER")
SHARED_MEMORY = 64 * 1024 * 1024
_ROOT_NAMES = frozenset({"", "0", "root"})


def is_root(user: str) -> bool:
    """True for every spelling of root, also with a group (``0:0``)."""
    return user.partition(":")[0] in _ROOT_NAMES


def host_config(limits: Limits, *, user: str, network: str, cpus: int) -> dict[str, Any]:
    """HostConfig of a hostile container. ``network`` is ``none`` or ``container:<id>``; ``cpus`` the engine's count.

    The engine's default seccomp profile stays in force. Swap is off: memory and swap together have one limit.
    """
    return {
        "NetworkMode": network,
        "Init": True,
        "Privileged": False,
        "CapDrop": ["ALL"],
        "CapAdd": list(ROOT_CAPABILITIES) if is_root(user) else [],
        "SecurityOpt": ["no-new-privileges"],
        "Memory": limits.memory,
        "MemorySwap": limits.memory,
        "NanoCpus": int(min(limits.cpus, cpus) * 1e9),
        "PidsLimit": limits.pids,
        "ShmSize": SHARED_MEMORY,  # /dev/shm, in memory and counted as such
        "Ulimits": [
            {"Name": "fsize", "Soft": limits.disk, "Hard": limits.disk},
            {"Name": "core", "Soft": 0, "Hard": 0},
        ],
        # Rotated, so that a flood of output cannot fill the engine's disk; the end of it is kept.
        "LogConfig": {"Type": "local", "Config": {"max-size": "2m", "max-file": "2"}},
    }


def bounded_text(raw: bytes, limit: int) -> str:
    """The last ``limit`` bytes as text: undecodable bytes replaced, NULs dropped, a note when something was cut."""
    text = raw[-limit:].decode(errors="replace").replace("\0", "")
    return text if len(raw) <= limit else f"[earlier output dropped]\n{text}"
