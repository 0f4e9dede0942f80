"""The Harbor proof: the real tool lints each package, scores its oracle 1 and its nop agent 0."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from facet_dagster.adapters.harbor_leftovers import remove_leftovers
from facet_dagster.errors import ConfigError
from facet_dagster.setup.harbor_tool import HarborTool, harbor_command, harbor_why_not
from facet_dagster.stages.task import export

ENVIRONMENT = "facet_harbor.offline:OfflineDockerEnvironment"
AGENTS = ("oracle", "nop")
SECONDS = 1_800


class HarborTrial(NamedTuple):
    """The reward that Harbor itself gave (None: no valid one), and the error of its trial, if there was one."""

    reward: float | None
    error: str


class HarborVerdict(NamedTuple):
    """Lint findings, and the rewards that Harbor itself gave (None: no valid reward)."""

    key: str
    findings: tuple[str, ...]
    oracle: float | None
    nop: float | None

    @property
    def ok(self) -> bool:
        return not self.findings and self.oracle == 1.0 and self.nop == 0.0


def line(verdict: HarborVerdict) -> str:
    mark = "ok " if verdict.ok else "BAD"
    found = "; ".join(verdict.findings) or "clean"
    return f"{mark} {verdict.key}  oracle {verdict.oracle}  nop {verdict.nop}  lint {found}"


def verify(packages: Mapping[str, bytes], home: Path, inherited: Mapping[str, str]) -> list[HarborVerdict]:
    """Run the real tool over packages (key -> tar), in the environment ``inherited``.

    Raises ConfigError when Harbor is not to be had.
    """
    tool = open_tool(home, inherited)
    with tempfile.TemporaryDirectory(prefix="facet-harbor-") as scratch:
        folder = Path(scratch) / "tasks"
        for key, archive in packages.items():
            export(archive, folder / key)
        oracle, nop = (run_agent(tool, folder, agent, Path(scratch) / "jobs") for agent in AGENTS)
        return [
            HarborVerdict(key, _lint(tool, folder / key), _reward_of(oracle, key), _reward_of(nop, key))
            for key in sorted(packages)
        ]


def open_tool(home: Path, inherited: Mapping[str, str]) -> HarborTool:
    """The Harbor that set-up left in ``home``, over the environment ``inherited``. Raises ConfigError."""
    tool = harbor_command(home)
    if tool is None:
        raise ConfigError(harbor_why_not(home))
    return HarborTool(tool.argv, {**inherited, **tool.env})


def run_agent(
    tool: HarborTool, folder: Path, agent: str, jobs: Path, seconds: float = SECONDS
) -> dict[str, HarborTrial]:
    """Key -> one trial of ``agent`` on each package below ``folder``, read from Harbor's own result files.

    Raises ConfigError when Harbor ran nothing, or took more than ``seconds``; SandboxError without an engine.
    """
    arguments = ["run", "-p", str(folder), "-a", agent, "-o", str(jobs), "--job-name", agent]
    done = _call(tool, [*arguments, "-e", ENVIRONMENT, "-n", "2", "-q", "-y"], seconds)
    results = sorted((jobs / agent).glob("*/result.json"))
    remove_leftovers([path.parent.name.lower() for path in results])
    if not results:
        raise ConfigError(f"Harbor ran no trial with agent {agent}: {done.stderr.strip()[-500:]}")
    return dict(_trial(path) for path in results)


def _lint(tool: HarborTool, package: Path) -> tuple[str, ...]:
    done = _call(tool, ["lint", str(package), "--json"])
    if done.returncode == 0:
        return ()
    return (done.stdout.strip()[-1_000:] or done.stderr.strip()[-1_000:],)


def _trial(path: Path) -> tuple[str, HarborTrial]:
    result = json.loads(path.read_text(encoding="utf-8"))
    rewards = (result.get("verifier_result") or {}).get("rewards") or {}
    error = result.get("exception_info") or {}
    text = f"{error.get('exception_type')}: {error.get('exception_message')}"[:500] if error else ""
    key = str(result["task_name"]).rpartition("/")[2]
    return key, HarborTrial(rewards.get("reward") if result.get("reward_valid", True) else None, text)


def _reward_of(trials: Mapping[str, HarborTrial], key: str) -> float | None:
    return trials[key].reward if key in trials else None


def _call(tool: HarborTool, arguments: list[str], seconds: float = SECONDS) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [*tool.argv, *arguments],
            env=tool.env,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"Harbor took more than {seconds:g} s: run fewer packages at once") from error
