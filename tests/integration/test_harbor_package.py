"""The package under the real Harbor: clean under its linter, oracle 1, an agent that does nothing 0."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.domain.replies import Replies
from facet_dagster.domain.second import SecondReply
from facet_dagster.domain.semantic import MutantsReply
from facet_dagster.domain.task import Task
from facet_dagster.settings import load_settings
from facet_dagster.setup.harbor_tool import HarborTool, harbor_command
from facet_dagster.stages.task.certificate.carried import Carried, with_carried
from facet_dagster.stages.task.certificate.effort import USUAL
from facet_dagster.stages.task.images import e0_archive
from facet_dagster.stages.task.package import TaskLimits, build_package, export
from tests.fixtures import service_cases as cases
from tests.fixtures import task_example as example
from tests.fixtures.examination import MUTANTS, second

pytestmark = pytest.mark.harbor
LIMITS = TaskLimits.of(60)


@pytest.fixture(scope="module")
def tool() -> HarborTool:
    found = harbor_command(load_settings().home)
    assert found is not None, "Harbor is not set up: run `make verify-harbor`, or deselect the marker `harbor`"
    return found


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packages") / "sales"
    built = build_package(
        example.draft(),
        example.environment(),
        example.SCENARIO,
        example.SKILLS,
        e0_archive=example.E0_ARCHIVE,
        limits=LIMITS,
        certificate=example.CERTIFIED,
    )
    draft, environment = example.draft(), example.environment()
    task = Task(seed=draft.seed, title="t", draft=draft, environment=environment, validations=())
    carried = Carried.of(task, example.SCENARIO, limits=LIMITS, effort=USUAL, package=built)
    replies = Replies(
        mutants=MutantsReply.model_validate({"mutants": MUTANTS}),
        second={"S1": SecondReply.model_validate(second())},
        blind=example.VERIFIER,
    )
    whole = with_carried(built, carried, replies)
    assert len([path for path in whole.files if path.startswith("certificate/")]) == 4
    export(whole.tar(), folder)
    return folder


def harbor(tool: HarborTool, *argv: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **tool.env}
    return subprocess.run([*tool.argv, *argv], env=env, capture_output=True, text=True, timeout=500, check=False)


def judged(tool: HarborTool, package: Path, folder: Path, agent: str, reward: float) -> Path:
    """The folder of the one trial, whose reward is as expected."""
    where = ["-p", str(package), "-o", str(folder), "--job-name", agent]
    environment = ["-e", "facet_harbor.offline:OfflineDockerEnvironment"]
    done = harbor(tool, "run", *where, "-a", agent, *environment, "-n", "1", "-q", "-y")
    found = list(folder.glob("*/*__*/result.json"))
    assert len(found) == 1, done.stdout + done.stderr
    result = json.loads(found[0].read_text())
    assert result["exception_info"] is None, result["exception_info"]
    assert result["verifier_result"]["rewards"] == {"reward": reward}
    return found[0].parent


def test_harbor_lint_finds_nothing(tool: HarborTool, package: Path) -> None:
    done = harbor(tool, "lint", str(package), "--json")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("agent", "reward"), [("oracle", 1.0), ("nop", 0.0)])
def test_harbor_gives_the_reward_that_our_trials_give(
    tool: HarborTool, package: Path, tmp_path: Path, agent: str, reward: float
) -> None:
    trial = judged(tool, package, tmp_path, agent, reward)
    assert len(json.loads((trial / "verifier/checks.json").read_text())) == len(example.CHECKS)


@pytest.fixture(scope="module")
def service_package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The package of a task with a live service, from the environment that its initial files were read of."""
    case = cases.load("stock-redis")
    sandbox = DockerSandbox(slots_dir=tmp_path_factory.mktemp("slots"))
    environment = cases.environment(case, sandbox)
    assert environment.image, environment.attempts
    initial = e0_archive(environment.image, sandbox)
    limits = TaskLimits.of(60)
    built = build_package(case.draft, environment, case.scenario, example.SKILLS, e0_archive=initial, limits=limits)
    folder = tmp_path_factory.mktemp("packages") / "stock"
    export(built.tar(), folder)
    yield folder
    sandbox.remove_image(environment.image)
    sandbox.close()


@pytest.mark.docker
def test_harbor_lint_finds_nothing_in_a_task_with_a_service(tool: HarborTool, service_package: Path) -> None:
    done = harbor(tool, "lint", str(service_package), "--json")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.docker
@pytest.mark.parametrize(("agent", "reward"), [("oracle", 1.0), ("nop", 0.0)])
def test_harbor_starts_the_service_and_judges_its_live_state(
    tool: HarborTool, service_package: Path, tmp_path: Path, agent: str, reward: float
) -> None:
    trial = judged(tool, service_package, tmp_path, agent, reward)
    statuses = {c["id"]: c["status"] for c in json.loads((trial / "verifier/checks.json").read_text())}
    assert statuses["C3"] == "pass", "what the collect commands saw reached the verifier"
