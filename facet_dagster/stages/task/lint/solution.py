"""Rules on solve.sh: syntax, network, reading what judges it, clock and chance."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

from facet_dagster.domain.task import SolutionReply
from facet_dagster.errors import ConfigError
from facet_dagster.stages.task.lint.instruction import too_long
from facet_dagster.stages.task.lint.rules import Problem, said
from facet_dagster.stages.task.render import script

MAX_CHARS = 48_000
HEREDOC = re.compile(r"<<-?[ \t]*(['\"]?)(\w+)\1[^\n]*\n.*?^\t*\2$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
COMMAND = r"(?:^|[;&|(`]|\bsudo\s|\bthen\s|\bdo\s)[ \t]*"  # where a shell looks for the name of a program
_NETWORK = re.compile(
    COMMAND + r"(curl|wget|apt|apt-get|pip3?|python3? -m pip|npm|npx|ssh|scp|nc|git clone)[ \t]", re.MULTILINE
)
_LOOPBACK = frozenset({"curl", "wget", "nc"})  # may rightly ask a service of the task
_SOCKET = re.compile(
    r"^[ \t]*(?:import|from)[ \t]+(socket|urllib\.request|requests|http\.client|httpx|aiohttp)\b", re.MULTILINE
)
_JUDGE = re.compile(r"(?<![\w/.}-])/(tests|logs/verifier|logs/agent|solution)(?=[/\s\"')]|$)", re.MULTILINE)
_CLOCK = re.compile(
    r"datetime\.(?:now|utcnow|today)\(|date\.today\(|time\.time(?:_ns)?\(|\$\(date\b(?![^)]*-d)|random\.\w+\("
    r"|\$\{?(?:S?RANDOM|EPOCHSECONDS|EPOCHREALTIME)\b|\bprintf\s[^\n]*?%\([^)\n]*\)T"
    r"|\bos\.urandom\(|\buuid\.uuid[14]\(|\bsecrets\.\w+\(|/dev/u?random\b"
)


def lint_solution(solution: SolutionReply, *, services: bool = False) -> tuple[Problem, ...]:
    """Problems of solve.sh. ``services`` says that something answers on the loopback."""
    text = script(solution.solve_sh)
    code = _COMMENT.sub("", text)
    found = [*too_long(text, "solution", MAX_CHARS), *_bash_problems(text)]
    found += [
        said("solution-network", f"solve.sh calls {m[1].strip()!r}, but there is no network.")
        for m in _NETWORK.finditer(HEREDOC.sub("", code))
        if not (services and m[1] in _LOOPBACK)
    ]
    found += [
        said("solution-network", f"solve.sh imports {m[1]}, but there is no network.")
        for m in _SOCKET.finditer(code)
        if not services
    ]
    found += [
        said("solution-judge", f"solve.sh uses /{m[1]}, which does not exist while it runs.")
        for m in _JUDGE.finditer(code)
    ]
    found += [
        said("solution-steady", f"solve.sh uses {m[0]!r}, so its result is not the same each time.")
        for m in _CLOCK.finditer(code)
    ]
    return tuple(dict.fromkeys(found))


def shell_only(solution: SolutionReply) -> str:
    """The script without comments and the bodies of here-documents."""
    return HEREDOC.sub("", _COMMENT.sub("", script(solution.solve_sh)))


def _bash_problems(text: str) -> Iterator[Problem]:
    """``bash -n`` reads the script from a pipe and runs nothing of it."""
    try:
        done = subprocess.run(
            ["bash", "--norc", "--noprofile", "-n"],
            input=text.encode(errors="replace"),
            capture_output=True,
            timeout=20,
            env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
            check=False,
        )
    except FileNotFoundError as error:
        raise ConfigError("bash is not installed; it is needed to check the syntax of solutions") from error
    except subprocess.TimeoutExpired:
        yield said("bash-syntax", "solve.sh could not be parsed by bash in 20 s.")
        return
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        yield said("bash-syntax", f"solve.sh is no valid bash: {' '.join(lines[:2])[:300]}")
