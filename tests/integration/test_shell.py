"""`facet shell`: the real command opens the states of tasks that real validations judged."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import docker
import pytest

from facet_dagster import shell
from facet_dagster.adapters.docker_labels import SUBJECT
from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.adapters.memory import ScriptedLLM
from facet_dagster.connect import open_ledger, open_store
from facet_dagster.domain.dockerfile import environment_executables, environment_files
from facet_dagster.domain.environment import BuildAttempt, Environment, SourceFile
from facet_dagster.domain.facts import CandidateFact, SeedFact
from facet_dagster.domain.outcome import Reason, Verdict, reject
from facet_dagster.domain.task import TaskEdit, TaskRepairReply
from facet_dagster.errors import ConfigError
from facet_dagster.funnel import Compute, Outcome, Stage, plan, run_stage
from facet_dagster.pipeline import tasks as pipeline
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.ports import BuildContext, Built
from facet_dagster.reports.states import State, StateName, state
from facet_dagster.settings import Settings
from facet_dagster.stages.task.package import AGENT, TaskLimits
from tests.conftest import Databases
from tests.e2e.conftest import FACET, Installation, installation
from tests.fixtures import service_cases as cases
from tests.fixtures import task_example as example

pytestmark = [pytest.mark.docker, pytest.mark.postgres]
MARK = uuid.uuid4().hex[:11]  # of this run, so that its containers are told from those of another
GOOD, BAD, LOST, NEW, EMPTY = (f"261130-{letter}{MARK}" for letter in "abcde")
PAIR = "pair-1"
WRONG = example.SOLVE.replace('"empty"', '"void"')


@dataclass(frozen=True)
class Shelf:
    """An installation with seeds of every fate, and the image that all of them share."""

    home: Installation
    settings: Settings
    image: str

    def shell(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.home.call("shell", *arguments)


@pytest.fixture(scope="module")
def shelf(databases: Databases) -> Iterator[Shelf]:
    url = databases.new_migrated()
    for home in installation(FACET_POSTGRES_URL=url, FACET_TASK_REPAIRS="2"):
        sandbox = DockerSandbox()
        environment = _environment(sandbox)
        assert environment.image is not None
        settings = Settings(home=home.home, postgres_url=url, task_repairs=2)
        _fill(settings, environment, sandbox)
        yield Shelf(home, settings, environment.image)
        sandbox.remove_image(environment.image)
        sandbox.close()
    databases.drop(url)


@pytest.fixture
def api() -> Iterator[Any]:
    client = docker.APIClient(version="auto", **docker.utils.kwargs_from_env())
    yield client
    client.close()


def _environment(sandbox: DockerSandbox) -> Environment:
    """The example's, with content of this run alone, so that no other run removes its image."""
    mark = SourceFile(path="notes.txt", content=uuid.uuid4().hex)
    recipe = example.RECIPE.model_copy(update={"files": (*example.RECIPE.files, mark)})
    files = environment_files(recipe, example.MANIFEST, example.BASE)
    built = sandbox.build(BuildContext(files, environment_executables(recipe)), subject=GOOD)
    assert isinstance(built, Built), built
    return example.environment(built.image).model_copy(update={"recipe": recipe})


def _edit(find: str, replace: str) -> TaskRepairReply:
    edits = [TaskEdit(target="solve.sh", find=find, replace=replace)]
    return TaskRepairReply(component="solution", evidence="the reason is wrong", edits=edits)


def _fill(settings: Settings, environment: Environment, sandbox: DockerSandbox) -> None:
    """Real validations and a real repair of drafts made by hand; GOOD is valid, BAD after its second repair."""
    ledger, store, graph = open_ledger(settings), open_store(settings), seed_stages(settings)
    pair = {"candidate": PAIR, "first": "1", "second": "2"}
    ledger.append([CandidateFact(version="1", anchor="1", score=1.0, verdict=Verdict.ACCEPTED, **pair)])
    ledger.append(
        SeedFact(key=key, batch="b", scenario="s", families=["data", "ai"], **pair)
        for key in (GOOD, BAD, LOST, NEW, EMPTY)
    )

    def carry(stage: Stage, keys: list[str], compute: Compute) -> None:
        work = plan(stage, keys, ledger).work
        report = run_stage(stage.name, work, compute, ledger=ledger, store=store, emit=lambda _: None)
        assert report.failed == {}

    def of(key: str) -> Environment:
        return environment.model_copy(update={"seed": key})

    def realised(key: str) -> Outcome:
        if key != LOST:
            return Outcome(of(key))
        failed = (BuildAttempt(round=0, recipe="r", failed_step="RUN x"),)
        lost = reject(Reason.ENVIRONMENT_REPAIR_EXHAUSTED, "It does not build.")
        return Outcome(of(key).model_copy(update={"attempts": failed, "e0": None}), lost)

    def drafted(key: str) -> Outcome:
        solve = WRONG if key == BAD else example.SOLVE
        update = {"seed": key, "solution": example.solution(solve)}
        return Outcome(example.draft(environment.image or "").model_copy(update=update))

    started = [GOOD, BAD, LOST, EMPTY]
    carry(graph.seed, started, lambda key: Outcome(example.SEED.model_copy(update={"key": key})))
    carry(graph.scenario, started, lambda _: Outcome(example.SCENARIO))
    carry(graph.first_build, started, lambda key: Outcome(of(key)))
    carry(graph.environment, started, realised)
    carry(graph.task_draft, [GOOD, BAD, LOST], drafted)
    ports = {"ledger": ledger, "store": store, "sandbox": sandbox}
    carry(graph.first_validation, [GOOD, BAD], pipeline.first_validation(settings, **ports))
    llm = ScriptedLLM({"repair_task": [_edit('"void"', '"missing"'), _edit('"missing"', '"empty"')]})
    carry(graph.task, [GOOD, BAD], pipeline.task(settings, llm=llm, **ports))


def test_e0_is_untouched(shelf: Shelf) -> None:
    done = shelf.shell(GOOD, "--command", "id -un; pwd; ls; ls /solution; exit 7")
    said = done.stdout.split()
    assert said[:2] == ["agent", "/app"], done.stderr
    assert {"RULES.md", "data", "notes.txt"} <= set(said)
    assert "out" not in said
    assert "cannot access '/solution'" in done.stdout
    assert done.returncode == 7


def test_oracle_has_run_the_solution_and_shows_what_it_said(shelf: Shelf) -> None:
    done = shelf.shell(BAD, "--state", "oracle", "--command", "cat out/rejects.csv; ls -l /solution/solve.sh")
    assert "4,empty" in done.stdout.split(), done.stderr
    assert "-r-xr-xr-x" in done.stdout
    assert "/solution/solve.sh ended with exit code 0" in done.stderr


def test_failed_is_the_last_failure_with_the_draft_of_its_round(shelf: Shelf) -> None:
    done = shelf.shell(BAD, "--state", "failed", "--command", "cat out/rejects.csv")
    assert "4,missing" in done.stdout.split(), done.stderr
    assert "Validation of round 1 failed, task.oracle_failed" in done.stderr
    failed = [line.split()[1] for line in done.stderr.splitlines() if line.startswith("check C")]
    assert failed == ["C9", "C11"]


def test_the_hardening_of_a_trial(shelf: Shelf) -> None:
    look = "grep -hE 'CapEff|NoNewPrivs' /proc/self/status; echo devices $(tail -n +3 /proc/net/dev); touch /etc/x 2>&1"
    agent, root = shelf.shell(GOOD, "--command", look), shelf.shell(GOOD, "--root", "--command", f"{look}; id -un")
    assert agent.stdout.split()[:6] == ["CapEff:", "0" * 16, "NoNewPrivs:", "1", "devices", "lo:"]
    assert agent.stdout.count(":") == 5, f"the loopback alone: {agent.stdout}"
    assert "Permission denied" in agent.stdout
    assert agent.returncode == 1
    assert root.stdout.split()[1] == "00000000000000cb", "chown, dac_override, fowner, setgid, setuid"
    assert root.stdout.split()[-1] == "root"


@pytest.mark.parametrize(
    ("ident", "name", "says"),
    [
        ("270101", "e0", "Nothing has the id '270101'"),
        ("261130", "e0", "'261130' is the beginning of 5 ids"),
        (PAIR, "e0", "is a candidate, and only seeds have containers"),
        (NEW, "e0", f"Seed {NEW} has no environment"),
        (LOST, "oracle", f"Seed {LOST} has no environment"),
        (EMPTY, "oracle", f"Seed {EMPTY} has no solution yet"),
        (GOOD, "failed", f"No validation of seed {GOOD} failed"),
    ],
    ids=["unknown", "ambiguous", "pair", "no-environment", "lost", "empty", "none-failed"],
)
def test_what_cannot_be_opened_is_one_sentence(shelf: Shelf, ident: str, name: StateName, says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        state(ident, name, shelf.settings, open_ledger(shelf.settings), open_store(shelf.settings))


def test_without_a_terminal_the_command_says_what_to_do(shelf: Shelf) -> None:
    done = shelf.shell(GOOD[:8])
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == 'facet: A shell needs a terminal: give --command "..." to run one command without\n'


def test_an_image_that_is_gone_is_built_again(shelf: Shelf, api: Any) -> None:
    api.remove_image(shelf.image)
    assert shelf.shell(GOOD, "--command", "ls").returncode == 0
    assert shelf.image in {tag for image in api.images() for tag in image["RepoTags"] or ()}


def test_a_terminal_gets_a_shell(shelf: Shelf, api: Any) -> None:
    ours, theirs = pty.openpty()
    argv = [str(FACET), "shell", GOOD, "--state", "oracle"]
    process = subprocess.Popen(
        argv, env=shelf.home.environment(), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    os.write(ours, b"echo $((40 + 2)) $(id -un) $(pwd) $(ls out | wc -l); exit 3\n")
    said = b""
    try:
        while chunk := os.read(ours, 4096):
            said += chunk
    except OSError:  # how the end of a terminal is told
        pass
    os.close(ours)
    assert process.wait(timeout=60) == 3, said.decode(errors="replace")
    assert b"42 agent /app 2" in said
    assert _containers(api) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_however_it_ends_its_container_goes(shelf: Shelf, api: Any, number: signal.Signals) -> None:
    argv = [str(FACET), "shell", GOOD, "--command", "sleep 300"]
    process = subprocess.Popen(argv, env=shelf.home.environment(), stderr=subprocess.DEVNULL)
    while not any(c["State"] == "running" for c in _containers(api)):
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(number)
    assert process.wait(timeout=60) != 0
    if number == signal.SIGKILL:
        assert shelf.home.call("reap").returncode == 0
    assert _containers(api) == []


def _containers(api: Any) -> list[Any]:
    return list(api.containers(all=True, filters={"label": f"{SUBJECT}={GOOD}"}))


def test_services_run_beside_the_shell() -> None:
    sandbox, case = DockerSandbox(), cases.load("stock-redis")
    environment = cases.environment(case, sandbox)
    assert environment.image is not None
    found = State(seed=case.draft.seed, environment=environment, solve_sh=case.draft.solution.solve_sh)
    said: list[str] = []
    with shell.opened(found, sandbox, user=AGENT, limits=TaskLimits(), say=said.append) as session:
        assert shell.command(session, "id -un; redis-cli ping", AGENT).output == "agent\nPONG\n"
    assert said[0] == "Services redis are up."
    assert said[1].endswith("/solution/solve.sh ended with exit code 0.")
    sandbox.remove_image(environment.image)
    sandbox.close()
