"""The machine: packages, home folder, disk, the web UI's port."""

from __future__ import annotations

import os
import re
import socket
from contextlib import closing, suppress
from importlib import metadata
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from facet_dagster.connect import FULL_BYTES
from facet_dagster.doctor.finding import Finding, Patient, broken, ok, warn
from facet_dagster.settings import ROOT

LOW_BYTES = 2**30  # a batch of seeds writes some hundred MiB
_PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)", re.M)
_LOOPBACK = ("127.", "::1", "localhost")


def packages(patient: Patient) -> Finding:
    """The installed packages against requirements.lock."""
    del patient
    pinned = _PIN.findall((ROOT / "requirements.lock").read_text(encoding="utf-8"))
    missing, other = [], []
    for name, version in pinned:
        installed = _installed(name)
        if installed is None:
            missing.append(name)
        elif installed.partition("+")[0] != version.partition("+")[0]:
            other.append(f"{name} {installed} (tested: {version})")
    if missing:
        return broken("packages", f"not installed: {', '.join(missing)}", "run `make setup`")
    if other:
        return warn("packages", f"other versions than the tested ones: {', '.join(other)}", "run `make setup`")
    return ok("packages", f"{len(pinned)} as pinned")


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def home(patient: Patient) -> Finding:
    folder = patient.settings.home
    place = existing(folder)
    if not place.is_dir():
        return broken("home", f"{place} is no folder", "remove it, or set FACET_HOME to a folder")
    readonly = os.statvfs(place).f_flag & os.ST_RDONLY
    if readonly or not os.access(place, os.W_OK | os.X_OK):
        return broken("home", f"{place} cannot be written", "make it writable, or set FACET_HOME to a folder of yours")
    return ok("home", str(folder) if place == folder else f"{folder} is not there yet: `make setup` makes it")


def existing(path: Path) -> Path:
    """The path, or the nearest one above it that exists."""
    return next(place for place in (path, *path.parents) if place.exists())


def disk(patient: Patient) -> Finding:
    """The disk that holds the home folder; the engine's has a check of its own."""
    folder = existing(patient.settings.home)
    stat = os.statvfs(folder)
    free = stat.f_bavail * stat.f_frsize
    said, mend = f"{free / 2**30:.1f} GiB free for {patient.settings.home}", "free some space (`facet tidy` helps)"
    if free < FULL_BYTES:
        return broken("disk", f"full: {free // 2**20} MiB free for {patient.settings.home}", mend)
    if stat.f_files and stat.f_favail < stat.f_files * 0.02:
        return broken(
            "disk", f"nearly no inode is free for {patient.settings.home}", "remove files that are not needed"
        )
    return warn("disk", f"little space: {said}", mend) if free < LOW_BYTES else ok("disk", said)


def web_port(patient: Patient) -> Finding:
    """Whether the web UI could listen, or does."""
    host, port = patient.settings.ui_host, patient.settings.ui_port
    open_to_others = not host.startswith(_LOOPBACK)
    if not _answers(host, port):
        if open_to_others:
            return warn("web port", f"{host}:{port} is free, but reached from other machines", _KEEP_PRIVATE)
        return ok("web port", f"{port} is free")
    pid = _listener(port)
    if pid is not None and _is_ours(pid, patient.settings.home):
        what = f"the web UI is served at http://{host}:{port} (process {pid})"
        return (
            warn("web port", f"{what}, also to other machines", _KEEP_PRIVATE)
            if open_to_others
            else ok("web port", what)
        )
    who = f"process {pid} ({_name(pid)})" if pid is not None else "another program"
    return broken(
        "web port", f"port {port} is in use by {who}", "stop what uses it, or set FACET_UI_PORT to another one"
    )


_KEEP_PRIVATE = (
    "who reaches the web UI can start code: set FACET_UI_HOST=127.0.0.1, or put a proxy with a login before it"
)


def _answers(host: str, port: int) -> bool:
    """Whether somebody accepts connections; ``::`` and 0.0.0.0 are asked on the loopback."""
    where = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104 - compared, not bound
    with suppress(OSError), closing(socket.create_connection((where, port), timeout=3)):
        return True
    return False


def _listener(port: int) -> int | None:
    with suppress(psutil.Error, OSError):
        for seen in psutil.net_connections("tcp"):
            if seen.status == psutil.CONN_LISTEN and seen.laddr.port == port and seen.pid:
                return int(seen.pid)
    return None


def _is_ours(pid: int, home_folder: Path) -> bool:
    """Whether the process is a web server of this installation's Dagster."""
    with suppress(psutil.Error, OSError):
        return bool(psutil.Process(pid).environ().get("DAGSTER_HOME") == str(home_folder / "dagster"))
    return False


def _name(pid: int) -> str:
    with suppress(psutil.Error):
        return str(psutil.Process(pid).name())
    return "gone meanwhile"
