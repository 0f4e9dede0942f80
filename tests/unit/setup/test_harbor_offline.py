"""Harbor's real tool runs a `no-network` task through our environment class: only the loopback device is there."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from facet_dagster.setup.harbor_tool import HarborTool, harbor_command, harbor_why_not
from facet_dagster.setup.images import DEFAULT_BASE
from facet_dagster.setup.paths import Places, process_env

pytestmark = [pytest.mark.harbor, pytest.mark.docker]

FILES = {
    "task.toml": """\
schema_version = "1.4"
artifacts = ["/app/devices.txt"]
[task]
name = "facet/devices"
[environment]
network_mode = "no-network"
workdir = "/app"
[verifier]
environment_mode = "separate"
""",
    "instruction.md": "Write the names of the network devices to /app/devices.txt.\n",
    "environment/Dockerfile": f"FROM {DEFAULT_BASE.name}\nSTOPSIGNAL SIGKILL\nWORKDIR /app\n",
    "solution/solve.sh": "#!/bin/bash\nls /sys/class/net > /app/devices.txt\n",
    "tests/Dockerfile": f"FROM {DEFAULT_BASE.name}\nSTOPSIGNAL SIGKILL\nWORKDIR /app\nCOPY . /tests/\n",
    "tests/test.sh": """\
#!/bin/bash
reward=0
if [ "$(cat /app/devices.txt)" = lo ] && [ "$(ls /sys/class/net)" = lo ]; then reward=1; fi
echo $reward > /logs/verifier/reward.txt
""",
}


@pytest.fixture(scope="module")
def tool() -> HarborTool:
    home = Places.from_env(process_env()).home
    found = harbor_command(home)
    if found is None:
        pytest.skip(harbor_why_not(home))
    return found


@pytest.fixture
def task(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "devices" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "devices"


def run(tool: HarborTool, task: Path, agent: str, *more: str) -> subprocess.CompletedProcess[str]:
    jobs = task.parent / "jobs"
    chosen = ("-p", str(task), "-a", agent, "-e", "facet_harbor.offline:OfflineDockerEnvironment")
    argv = [*tool.argv, "run", *chosen, "-o", str(jobs), "--job-name", agent, "-q", "-y", *more]
    # Wide enough that a message is not wrapped.
    env = {**process_env(), **tool.env, "COLUMNS": "400"}
    return subprocess.run(argv, env=env, capture_output=True, text=True, cwd=task.parent)


def reward(task: Path, agent: str) -> float:
    (path,) = (task.parent / "jobs" / agent).glob("*/result.json")
    result = json.loads(path.read_text())
    assert result["exception_info"] is None
    assert result["reward_valid"]
    return float(result["verifier_result"]["rewards"]["reward"])


def test_solver_and_verifier_see_no_network(tool: HarborTool, task: Path) -> None:
    assert run(tool, task, "oracle").returncode == 0
    assert reward(task, "oracle") == 1.0


def test_doing_nothing_is_worth_nothing(tool: HarborTool, task: Path) -> None:
    assert run(tool, task, "nop").returncode == 0
    assert reward(task, "nop") == 0.0


def test_a_task_with_services_of_its_own_is_refused(tool: HarborTool, task: Path) -> None:
    (task / "environment" / "docker-compose.yaml").write_text(f"services:\n  side:\n    image: {DEFAULT_BASE.name}\n")
    done = run(tool, task, "oracle")
    assert done.returncode != 0 or not list((task.parent / "jobs" / "oracle").glob("*/verifier/reward.txt"))
    assert "isolate the main service only" in done.stdout + done.stderr + log_text(task)


def log_text(task: Path) -> str:
    return "".join(
        path.read_text() for path in (task.parent / "jobs").rglob("*") if path.name in {"job.log", "exception.txt"}
    )
