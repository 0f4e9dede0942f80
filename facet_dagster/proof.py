"""The Harbor proof: the real tool lints each package, scores its oracle 1 and its nop agent 0."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from facet_dagster.errors import ConfigError
from facet_dagster.setup.harbor_tool import HarborTool, harbor_command, harbor_why_not
from facet_dagster.stages.task import export

ENVIRONMENT = "facet_harbor.offline:OfflineDockerEnvironment"
SECONDS = 1_800


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
    tool = harbor_command(home)
    if tool is None:
        raise ConfigError(harbor_why_not(home))
    tool = HarborTool(tool.argv, {**inherited, **tool.env})
    with tempfile.TemporaryDirectory(prefix="facet-harbor-") as scratch:
        folder = Path(scratch) / "tasks"
        for key, archive in packages.items():
            export(archive, folder / key)
        oracle = _run(tool, folder, "oracle", Path(scratch))
        nop = _run(tool, folder, "nop", Path(scratch))
        return [
            HarborVerdict(key, _lint(tool, folder / key), oracle.get(key), nop.get(key)) for key in sorted(packages)
        ]


def _lint(tool: HarborTool, package: Path) -> tuple[str, ...]:
    done = _call(tool, ["lint", str(package), "--json"])
    if done.returncode == 0:
        return ()
    return (done.stdout.strip()[-1_000:] or done.stderr.strip()[-1_000:],)


def _run(tool: HarborTool, folder: Path, agent: str, scratch: Path) -> dict[str, float | None]:
    """Key -> reward of one trial each, read from Harbor's own result files."""
    jobs = scratch / "jobs"
    arguments = ["run", "-p", str(folder), "-a", agent, "-o", str(jobs), "--job-name", agent]
    done = _call(tool, [*arguments, "-e", ENVIRONMENT, "-n", "2", "-q", "-y"])
    results = sorted((jobs / agent).glob("*/result.json"))
    if not results:
        raise ConfigError(f"Harbor ran no trial with agent {agent}: {done.stderr.strip()[-500:]}")
    return dict(_reward(path) for path in results)


def _reward(path: Path) -> tuple[str, float | None]:
    result = json.loads(path.read_text(encoding="utf-8"))
    rewards = (result.get("verifier_result") or {}).get("rewards") or {}
    key = str(result["task_name"]).rpartition("/")[2]
    return key, rewards.get("reward") if result.get("reward_valid", True) else None


def _call(tool: HarborTool, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*tool.argv, *arguments],
        env=tool.env,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
