"""Run a command with its output in a log file; standard library only."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from facet_dagster.setup.errors import SetupError
from facet_dagster.setup.paths import process_env

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def run_logged(
    argv: Sequence[str],
    log: Path,
    *,
    what: str,
    advice: str,
    env: Mapping[str, str] | None = None,
    timeout: float = 1800.0,
    cwd: Path | None = None,
) -> None:
    """Run `argv` to its end, output to `log`. Raises SetupError with `what`, the telling line and `advice`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    merged = {**process_env(), **(env or {})}
    with log.open("w", encoding="utf-8", errors="replace") as out:
        try:
            done = subprocess.run(
                argv,
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=merged,
                timeout=timeout,
                cwd=cwd,
            )
        except FileNotFoundError:
            raise SetupError(f"{what} failed: the command {argv[0]!r} does not exist; {advice}.") from None
        except subprocess.TimeoutExpired:
            raise SetupError(f"{what} did not end within {timeout:.0f} s (log: {log}); {advice}.") from None
    if done.returncode != 0:
        line = telling_line(log.read_text(encoding="utf-8", errors="replace"))
        raise SetupError(f"{what} failed with exit code {done.returncode}: {line} (log: {log}); {advice}.")


def telling_line(text: str, limit: int = 300) -> str:
    """The line of a command's output that most likely says what went wrong: the last error line, else the last one."""
    lines = [_ANSI.sub("", line).strip() for line in text.splitlines()]
    lines = [line for line in lines if line]
    if not lines:
        return "it printed nothing"
    errors = [line for line in lines if re.match(r"(?i)(E:|error\b|fatal\b|.*\berror:)", line)]
    return (errors or lines)[-1][:limit]


def answers(argv: Sequence[str], *, env: Mapping[str, str] | None = None, timeout: float = 20.0) -> str | None:
    """What a short command prints, or None when it is missing, fails or takes too long."""
    merged = {**process_env(), **(env or {})}
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            env=merged,
            timeout=timeout,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
