"""Tasks with live services on a real engine: built, looked at, judged, certified, refused."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any, NamedTuple

import docker
import pytest

from facet_dagster.adapters.docker_labels import RUN
from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.adapters.memory import MemoryArtifactStore
from facet_dagster.domain.archive import unpack
from facet_dagster.domain.environment import Environment, RunningService, Service
from facet_dagster.domain.outcome import Component, Reason
from facet_dagster.domain.task import Certificate, Draft, Task
from facet_dagster.domain.trial import ExecResult, Limits
from facet_dagster.ports import Run
from facet_dagster.stages.task.certificate import certify
from facet_dagster.stages.task.lint import lint
from facet_dagster.stages.task.validate import first_validation
from tests.fixtures import service_cases as cases
from tests.fixtures import task_example as example

pytestmark = pytest.mark.docker
SEEN = {
    "site-nginx": RunningService(name="nginx", ports=(8080,), processes=("nginx",)),
    "stock-redis": RunningService(name="redis", ports=(6379,), processes=("redis-server",)),
}


class Built(NamedTuple):
    """A case whose environment is on the engine."""

    case: cases.Case
    environment: Environment


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerSandbox]:
    made = DockerSandbox(slots_dir=tmp_path_factory.mktemp("slots"))
    yield made
    made.close()
    api = docker.APIClient(version="auto", **docker.utils.kwargs_from_env())
    assert api.containers(all=True, filters={"label": f"{RUN}={made.run_id}"}) == []
    assert api.images(filters={"label": f"{RUN}={made.run_id}"}) == []
    api.close()


@pytest.fixture(scope="module", params=cases.NAMES)
def built(request: pytest.FixtureRequest, sandbox: DockerSandbox) -> Iterator[Built]:
    case = cases.load(request.param)
    environment = cases.environment(case, sandbox)
    try:
        assert environment.image, environment.attempts
        yield Built(case, environment)
    finally:
        _remove(environment, sandbox)


@pytest.fixture(scope="module")
def redis(sandbox: DockerSandbox) -> Iterator[Built]:
    case = cases.load("stock-redis")
    environment = cases.environment(case, sandbox)
    yield Built(case, environment)
    _remove(environment, sandbox)


def validated(built: Built, sandbox: DockerSandbox, **update: Any) -> Task:
    draft: Draft = built.case.draft.model_copy(update=update)
    task = first_validation(draft, built.environment, built.case.scenario, sandbox=sandbox, trial_seconds=60).value
    assert isinstance(task, Task)
    return task


def solution(built: Built, solve_sh: str) -> dict[str, Any]:
    return {"solution": built.case.draft.solution.model_copy(update={"solve_sh": solve_sh})}


def test_the_initial_state_tells_what_runs(built: Built) -> None:
    e0 = built.environment.e0
    assert e0 is not None
    assert e0.services == (SEEN[built.case.name],)
    assert e0.view()["services"] == [SEEN[built.case.name].model_dump(mode="json")]


def test_a_case_is_refused_at_start_accepted_solved_and_certified(built: Built, sandbox: DockerSandbox) -> None:
    task = validated(built, sandbox)
    first = task.validations[0]
    assert task.valid, (first.rejection, first.baseline)
    assert first.remarks == ()
    assert first.baseline is not None
    assert first.oracle is not None
    assert (first.baseline.reward, first.oracle.reward) == (0, 1)
    assert first.oracle.services is not None
    assert first.oracle.services.ok
    assert all(command.ok for trial in (first.baseline, first.oracle) for command in trial.collected)

    store = MemoryArtifactStore()
    outcome = certify(
        task, built.case.scenario, example.SKILLS, sandbox=sandbox, store=store, trial_seconds=60, day=example.DAY
    )
    assert outcome.rejection is None, outcome.rejection
    assert isinstance(outcome.value, Certificate)
    package = unpack(store.get(outcome.value.package))
    facts = tomllib.loads(package["task.toml"].data.decode())
    assert facts["environment"]["healthcheck"]["command"] == "/usr/local/sbin/services --healthy"
    assert [c["user"] for c in facts["verifier"]["collect"]] == ["root"] * (1 + len(built.case.draft.collect))
    assert package["environment/build/services.sh"].mode & 0o111


def test_a_solution_that_does_nothing_to_the_service_is_refused(redis: Built, sandbox: DockerSandbox) -> None:
    report = 'echo \'{"items": 6, "merged": 3, "booked": 5, "rejected": 3}\' > /app/out/report.json'
    task = validated(redis, sandbox, **solution(redis, f"mkdir -p /app/out\n{report}\n"))
    rejection = task.validations[0].rejection
    assert rejection is not None
    assert rejection.reason is Reason.TASK_ORACLE_FAILED
    failed = {check["id"] for check in rejection.evidence["checks"]}
    assert "C15" not in failed
    assert {"C1", "C5", "C10", "C11", "C12", "C13"} <= failed


def test_a_solution_that_ends_the_service_is_refused(redis: Built, sandbox: DockerSandbox) -> None:
    good = redis.case.draft.solution.solve_sh
    task = validated(redis, sandbox, **solution(redis, good + "redis-cli shutdown nosave\n"))
    rejection = task.validations[0].rejection
    assert rejection is not None
    assert rejection.reason is Reason.TASK_ORACLE_FAILED


def test_work_that_leaves_too_much_is_blamed_and_no_engine_trouble(redis: Built, sandbox: DockerSandbox) -> None:
    big = 'python3 -c \'import os; open("/app/big", "wb").write(b"x" * (70 << 20))\'\n'
    rejection = validated(redis, sandbox, **solution(redis, big)).validations[0].rejection
    assert rejection is not None
    assert (rejection.reason, rejection.component) == (Reason.TASK_RESOURCES, Component.SOLUTION)


def test_nobody_but_root_writes_what_the_verifier_finds(redis: Built, sandbox: DockerSandbox) -> None:
    """The work plants results, links and a writer that stays; the verifier sees what the collect commands saw."""
    plant = """
for name in items.tsv keys.tsv low.json; do ln -s /app/planted /logs/artifacts/$name; done
touch /logs/artifacts/codes.json; chmod 777 /logs/artifacts/codes.json
spoil() { while true; do echo '["planted"]' > /logs/artifacts/codes.json; mv /logs/artifacts/audit.json /app/; done; }
spoil >/dev/null 2>&1 &
"""
    task = validated(redis, sandbox, **solution(redis, redis.case.draft.solution.solve_sh + plant))
    assert task.valid, task.validations[0].rejection


def test_a_service_that_dies_is_the_fault_of_the_environment(redis: Built, sandbox: DockerSandbox) -> None:
    service = redis.case.recipe.services[0]
    for command, said in (("echo no such luck >&2; exit 3", "has ended"), ("sleep 100", "is not healthy after 1 s")):
        bad = service.model_copy(update={"command": command, "seconds": 1})
        failed = cases.environment(redis.case, sandbox, services=(bad,))
        assert failed.e0 is None
        assert said in failed.attempts[-1].problems[0]
        task = validated(redis._replace(environment=_standing(failed)), sandbox)
        rejection = task.validations[0].rejection
        assert rejection is not None
        assert (rejection.reason, rejection.component) == (Reason.TASK_SERVICE_FAILED, Component.ENVIRONMENT)
        assert said in rejection.message
        _remove(failed, sandbox)


def test_a_port_that_nobody_opens_breaks_a_promise(redis: Built, sandbox: DockerSandbox) -> None:
    service = redis.case.recipe.services[0].model_copy(update={"ports": (6379, 7000)})
    failed = cases.environment(redis.case, sandbox, services=(service,))
    assert failed.attempts[-1].problems == ("Service redis is healthy but does not listen on port 7000, but on 6379.",)
    _remove(failed, sandbox)


ASK = "python3 -c 'import urllib.request as u; u.urlopen(\"http://127.0.0.1:8001\")'"
ASK_SECOND = ASK.replace("8001", "8002")
PAIR = (
    Service(
        name="first",
        command="exec python3 -m http.server 8001 --bind 127.0.0.1",
        healthcheck=ASK,
        ports=(8001,),
        folders=("/srv/first",),
        workdir="/srv/first",
        set_up="id -un > whose\necho two words > file",
    ),
    Service(
        name="second",
        command=f'{ASK} && echo "it\'s \\$5 $HOME $(id -un)" >&2 && exec python3 -m http.server 8002 --bind 127.0.0.1',
        healthcheck=f'{ASK_SECOND} && grep -qx "it\'s \\$5 /home/agent agent" /var/log/facet/second.log',
        ports=(8002,),
    ),
)
HEALTHY = "/usr/local/sbin/services --healthy"
AS_AGENT = "setpriv --reuid=agent --regid=agent --clear-groups --"


@pytest.fixture(scope="module")
def pair(sandbox: DockerSandbox) -> Iterator[Environment]:
    made = cases.environment(cases.load("stock-redis"), sandbox, packages=(), services=PAIR)
    try:
        assert made.image, made.attempts
        yield made
    finally:
        _remove(made, sandbox)


def entrypoint(pair: Environment, sandbox: DockerSandbox, script: str, *arguments: str) -> ExecResult:
    argv = ("/usr/local/sbin/services", "sh", "-c", script, "-", *arguments)
    return sandbox.run(Run(pair.image or "", argv, "s", limits=Limits(seconds=60))).program


def test_services_start_in_order_and_then_the_program_runs_as_it_was_given(
    pair: Environment, sandbox: DockerSandbox
) -> None:
    done = entrypoint(pair, sandbox, f'{HEALTHY} && printf "%s|" $$ "$@" && exit 7', "a b", "", "$HOME")
    assert (done.exit_code, done.output.partition("|")[2]) == (7, "a b||$HOME|")
    done = entrypoint(pair, sandbox, "cat /srv/first/whose /srv/first/file; stat -c %U:%a /srv/first; ls /build 2>&1")
    assert done.output.splitlines()[:3] == ["agent", "two words", "agent:750"]
    assert "No such file" in done.output


def test_a_service_that_ended_later_is_told(pair: Environment, sandbox: DockerSandbox) -> None:
    kill = "sh -c 'kill -KILL $(cat /run/facet/first.pid)'"
    done = entrypoint(pair, sandbox, f"{AS_AGENT} {kill}; {HEALTHY} 2>&1; echo $?")
    assert done.output.split("\n")[:2] == ["Service first is not healthy.", "1"]


def test_the_second_service_fails_by_its_own_name(pair: Environment, sandbox: DockerSandbox) -> None:
    with sandbox.open(Run(pair.image or "", ("sleep", "100"), "s")) as session:
        session.exec(["sed", "-i", "s/exec python3 -m http.server 8002/exec false/", "/usr/local/sbin/services"])
        done = session.exec(["/usr/local/sbin/services", "echo", "never"])
    assert done.exit_code == 1
    assert done.output.startswith("Service second has ended; its command must stay in the foreground.")
    assert "it's $5" in done.output, "the end of its log"
    assert "never" not in done.output


def test_a_case_breaks_no_rule() -> None:
    for name in cases.NAMES:
        case = cases.load(name)
        assert lint(case.draft, case.scenario, case.recipe.rules_file, services=True) == ()
        assert len(case.draft.verifier.checks) >= 12
        refused = lint(case.draft, case.scenario, case.recipe.rules_file)
        assert [p.text for p in refused if p.component is Component.VERIFIER], "without services nothing answers"


def _standing(failed: Environment) -> Environment:
    """As if the service had been well when the environment was built."""
    last = failed.attempts[-1].model_copy(update={"problems": (), "failed_step": ""})
    return failed.model_copy(update={"attempts": (*failed.attempts[:-1], last)})


def _remove(environment: Environment, sandbox: DockerSandbox) -> None:
    sandbox.remove_image(environment.attempts[-1].image or "")
