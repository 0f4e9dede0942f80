"""The Docker Engine: used as it is when one answers, installed and started when none does."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

import docker
from docker.errors import DockerException

from facet_dagster.setup import apt
from facet_dagster.setup.errors import SetupError
from facet_dagster.setup.paths import Places, process_env
from facet_dagster.setup.steps import Outcome, Say

_START_SECONDS = 60.0
_PID_FILES = (
    (Path("/var/run/docker.pid"), "dockerd"),
    (Path("/var/run/docker/containerd/containerd.pid"), "containerd"),
)


def engine_version() -> str | None:
    """The version of the engine that answers at DOCKER_HOST or the default socket, or None."""
    try:
        with contextlib.closing(docker.from_env(timeout=10)) as client:
            return str(client.version()["Version"])
    except (DockerException, OSError, KeyError):
        return None


class EngineStep:
    """Make sure that a Docker Engine answers; one that already runs is never restarted or reconfigured."""

    name = "Docker Engine"
    waits_for = "an engine that answers"

    def __init__(self, places: Places) -> None:
        self._places = places

    def needed(self) -> bool:
        """Whether no engine answers."""
        return engine_version() is None

    def run(self, say: Say) -> Outcome:
        """Install and start the engine. Raises SetupError."""
        host = process_env().get("DOCKER_HOST")
        if host:
            raise SetupError(f"No Docker Engine answers at DOCKER_HOST={host}; start that engine or unset DOCKER_HOST.")
        if shutil.which("dockerd") is None:
            say("apt-get install docker.io")
            # Newer Debian has the client in a package that docker.io only recommends.
            apt.install(self._places, ("docker.io",), purpose="The sandbox", recommends=True)
        elif os.geteuid() != 0:
            raise SetupError(
                "No Docker Engine answers and only root can start one; start it (e.g. `sudo systemctl start docker`) "
                "and make sure that you may use its socket."
            )
        how = self._start(say)
        return Outcome("done", f"engine {engine_version()} started {how}")

    def _start(self, say: Say) -> str:
        if Path("/run/systemd/system").is_dir():
            return self._start_by(("systemctl", "start", "docker"), "by systemd", say)
        drop_stale_pid_files()
        if Path("/etc/init.d/docker").exists() and shutil.which("service"):
            with contextlib.suppress(SetupError):
                return self._start_by(("service", "docker", "start"), "by its init script", say, seconds=30.0)
            drop_stale_pid_files()
        return self._start_in_background(say)

    def _start_by(self, argv: tuple[str, ...], how: str, say: Say, seconds: float = _START_SECONDS) -> str:
        say(" ".join(argv))
        log = self._places.logs / "docker-start.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w") as out:
            done = subprocess.run(argv, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        # An init script that may not raise its limits ends at once: no use in waiting for its engine.
        if done.returncode != 0 or not _wait(seconds):
            raise SetupError(f"The Docker Engine does not answer after `{' '.join(argv)}` (log: {log}).")
        return how

    def _start_in_background(self, say: Say) -> str:
        say("dockerd in the background")
        log = self._places.home / "dockerd.log"
        with log.open("a") as out:
            process = subprocess.Popen(
                ["dockerd"],
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        if not _wait(_START_SECONDS, process):
            raise SetupError(f"dockerd was started but does not answer; its log {log} says why.")
        return f"in the background (log: {log})"


def _wait(seconds: float, process: subprocess.Popen[bytes] | None = None) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if engine_version() is not None:
            return True
        if process is not None and process.poll() is not None:
            return False
        time.sleep(0.25)
    return False


def drop_stale_pid_files(files: Iterable[tuple[Path, str]] = _PID_FILES, proc: Path = Path("/proc")) -> None:
    """Remove the pid files of an engine that was killed: the next one would refuse to start, or wait for a stranger."""
    for file, command in files:
        with contextlib.suppress(OSError, ValueError):
            if not _runs(int(file.read_text()), command, proc):
                file.unlink()


def _runs(pid: int, command: str, proc: Path) -> bool:
    try:
        return (proc / str(pid) / "comm").read_text().strip() == command
    except OSError:
        return False
