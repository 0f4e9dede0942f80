"""The Dagster webserver and daemon as two child processes that live and die together."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from facet_dagster.errors import ConfigError
from facet_dagster.settings import ROOT, Settings


def serve(settings: Settings, environment: Mapping[str, str]) -> int:
    """Serve on localhost:``ui_port`` until interrupted or until one of the two ends; returns an exit code.

    Raises ConfigError when the port is in use.
    """
    host, port = settings.ui_host, settings.ui_port
    check_port(host, port)
    workspace = ["-w", str(ROOT / "workspace.yaml")]
    commands = {
        "webserver": [sys.executable, "-m", "dagster_webserver", "-h", host, "-p", str(port), *workspace],
        "daemon": [str(Path(sys.executable).with_name("dagster-daemon")), "run", *workspace],
    }
    signal.signal(signal.SIGTERM, _interrupt)
    children = {name: subprocess.Popen(command, env=dict(environment)) for name, command in commands.items()}
    print(f"Dagster web UI: http://localhost:{port} (Ctrl-C stops it)", flush=True)  # noqa: T201 - a server's greeting
    try:
        return _wait(children)
    except KeyboardInterrupt:
        return 0
    finally:
        for child in children.values():
            child.terminate()
        for child in children.values():
            child.wait(timeout=30)


def _wait(children: Mapping[str, subprocess.Popen[bytes]]) -> int:
    while True:
        for child in children.values():
            if child.poll() is not None:
                return child.returncode or 1
        time.sleep(0.5)


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def check_port(host: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ConfigError(
                f"Port {port} is in use: stop what uses it, or set FACET_UI_PORT to another one"
            ) from error
