"""From a manifest that plans a service to a valid task: scripted replies, real containers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import docker
import pytest

from facet_dagster.adapters.docker_labels import RUN
from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.adapters.memory import ScriptedLLM
from facet_dagster.domain.environment import (
    E0,
    Environment,
    EnvironmentRepairReply,
    PlannedService,
    RunningService,
    Service,
    SourceFile,
)
from facet_dagster.domain.outcome import Reason
from facet_dagster.domain.seed import Seed
from facet_dagster.domain.task import Draft, Task
from facet_dagster.pipeline.tasks import _rebuilder
from facet_dagster.ports import Run
from facet_dagster.prompts import render
from facet_dagster.stages.environment import first_build, realise, rebuild
from facet_dagster.stages.task.draft import draft
from facet_dagster.stages.task.repair import finish
from facet_dagster.stages.task.validate import first_validation
from tests.fixtures import service_cases as cases
from tests.fixtures import task_example as example

pytestmark = pytest.mark.docker

CASE = cases.load("stock-redis")
GOOD = CASE.recipe.services[0]
# Redis refuses the option and ends; the log says so.
DEAD = GOOD.model_copy(update={"command": f"{GOOD.command} --maxmemory-polcy noeviction"})
OPEN = GOOD.model_copy(update={"command": GOOD.command.replace("127.0.0.1", "'*'") + " --protected-mode no"})


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerSandbox]:
    made = DockerSandbox(slots_dir=tmp_path_factory.mktemp("slots"))
    yield made
    for image in docker.from_env().images.list(filters={"label": f"{RUN}={made.run_id}"}):
        made.remove_image(image.tags[0])
    made.close()
    api = docker.APIClient(version="auto", **docker.utils.kwargs_from_env())
    assert api.containers(all=True, filters={"label": f"{RUN}={made.run_id}"}) == []
    assert api.images(filters={"label": f"{RUN}={made.run_id}"}) == []
    api.close()


def seed() -> Seed:
    return example.SEED.model_copy(update={"key": CASE.draft.seed})


def replies() -> dict[str, list[Any]]:
    """What a model says, one after the other: the service dies, then is open to all, then is right."""
    # A file of this run's own keeps other runs from sharing, and so removing, the images.
    mark = {"path": "notes.txt", "content": uuid.uuid4().hex}
    manifest = CASE.manifest.model_dump(mode="json")
    manifest["packages"] = []
    manifest["services"] = [
        {"name": "redis", "package": "redis-server", "port": 6379, "use": "change", "purpose": "stock of a shop"}
    ]
    files = [file.model_dump(mode="json") for file in CASE.recipe.files]
    return {
        "manifest": [manifest],
        "environment": [{"files": [*files, mark], "services": [DEAD.model_dump(mode="json")]}],
        "repair_environment": [
            {"diagnosis": "d", "put_services": [service.model_dump(mode="json")]} for service in (OPEN, GOOD)
        ],
        "instruction": [CASE.draft.instruction],
        "solution": [CASE.draft.solution],
        "verifier": [CASE.draft.verifier.model_copy(update={"collect": list(CASE.draft.collect)})],
    }


def test_a_planned_service_is_built_repaired_on_evidence_drafted_and_judged(sandbox: DockerSandbox) -> None:
    llm = ScriptedLLM(replies())
    first = first_build(seed(), CASE.scenario, llm=llm, sandbox=sandbox, base_image=example.BASE, build_seconds=600)
    assert isinstance(first.value, Environment)
    assert first.value.recipe.packages == ("redis-server",)
    assert first.value.attempts[0].ok, "a dead service is only seen when the image runs"

    outcome = realise(first.value, CASE.scenario, llm=llm, sandbox=sandbox, repairs=3, build_seconds=600)
    assert outcome.rejection is None, outcome.rejection
    environment = outcome.value
    assert isinstance(environment, Environment)
    dead, exposed, good = environment.attempts
    assert dead.problems == ("Service redis has ended; its command must stay in the foreground. The end of its log:",)
    assert "maxmemory-polcy" in dead.log_tail
    assert exposed.problems == ("Service redis listens on port 6379 of every address; bind it to 127.0.0.1.",)
    assert good.ok
    assert environment.e0 is not None
    assert environment.e0.services == (RunningService(name="redis", ports=(6379,), processes=("redis-server",)),)
    shown = render("repair_environment", llm.variables[2], EnvironmentRepairReply).user
    assert "maxmemory-polcy" in shown
    assert "put_services gives the whole new" in shown

    drafted = draft(seed(), CASE.scenario, environment, llm=llm).value
    assert isinstance(drafted, Draft)
    assert drafted.collect == CASE.draft.collect
    assert len(llm.asked) == 7, "no reply broke a rule"
    task = first_validation(drafted, environment, CASE.scenario, sandbox=sandbox, trial_seconds=60).value
    assert isinstance(task, Task)
    assert task.valid, task.validations[0].rejection


def test_a_service_that_dies_during_a_trial_is_replaced_by_a_repair_of_the_task(sandbox: DockerSandbox) -> None:
    built = cases.environment(CASE, sandbox, services=(DEAD,))
    # As if it had been well when the environment was built.
    last = built.attempts[-1].model_copy(update={"problems": (), "failed_step": ""})
    standing = built.model_copy(update={"attempts": (*built.attempts[:-1], last)})
    task = first_validation(CASE.draft, standing, CASE.scenario, sandbox=sandbox, trial_seconds=60).value
    assert isinstance(task, Task)
    assert task.validations[0].rejection is not None
    assert task.validations[0].rejection.reason is Reason.TASK_SERVICE_FAILED

    reply = {"component": "environment", "evidence": "e", "put_services": [GOOD.model_dump(mode="json")]}
    llm = ScriptedLLM({"repair_task": [reply]})
    seen = standing.model_copy(update={"e0": E0(workdir="/app", files=(), tools=())})
    repaired = finish(
        task,
        seen,
        CASE.scenario,
        llm=llm,
        sandbox=sandbox,
        trial_seconds=60,
        rounds=1,
        rebuild=_rebuilder(CASE.scenario, sandbox, 600),
    ).value
    assert isinstance(repaired, Task)
    assert repaired.valid, repaired.repairs
    assert repaired.environment.recipe.services == (GOOD,)


POSTGRES = "/usr/lib/postgresql/15/bin"
FORMS = (
    Service(
        name="shop",
        user="postgres",
        workdir="/srv/shop",
        folders=("/srv/shop",),
        command=f"exec {POSTGRES}/postgres -D /srv/shop/data -k /srv/shop -c listen_addresses=127.0.0.1",
        healthcheck="pg_isready -q -h 127.0.0.1",
        seconds=60,
        ports=(5432,),
        set_up=f"""
{POSTGRES}/initdb -D /srv/shop/data -A trust -U postgres -E UTF8 --locale=C.UTF-8 >/dev/null
{POSTGRES}/pg_ctl -D /srv/shop/data -w -l /srv/shop/start.log -o "-k /srv/shop -c listen_addresses=127.0.0.1" start
psql -q -v ON_ERROR_STOP=1 -h 127.0.0.1 -U postgres <<'SQL'
CREATE ROLE agent LOGIN; CREATE TABLE stock (code text PRIMARY KEY, quantity integer); GRANT ALL ON stock TO agent;
\\copy stock FROM '/app/data/seed.csv' WITH (FORMAT csv, HEADER)
SQL
{POSTGRES}/pg_ctl -D /srv/shop/data -w -m fast stop
""",
    ),
    Service(
        name="cache",
        user="memcache",
        command="exec memcached -l 127.0.0.1 -p 11211 -U 0",
        healthcheck='python3 -c \'import socket; s = socket.create_connection(("127.0.0.1", 11211), 5); '
        's.sendall(b"version\\r\\n"); assert s.recv(99)\'',
        ports=(11211,),
    ),
    Service(
        name="api",
        command="exec python3 -B server/api.py",
        healthcheck="python3 -c 'import urllib.request as u; u.urlopen(\"http://127.0.0.1:8000/\", timeout=5)'",
        ports=(8000,),
    ),
)
API = """\
from http.server import HTTPServer, SimpleHTTPRequestHandler

HTTPServer(("127.0.0.1", 8000), SimpleHTTPRequestHandler).serve_forever()
"""


def test_the_forms_that_the_prompt_offers_come_up_beside_each_other(sandbox: DockerSandbox) -> None:
    packages = {"shop": "postgresql", "cache": "memcached", "api": "python3"}
    files = {"data/seed.csv": "code,quantity\nBOLT-8,60\n", "server/api.py": API, "notes.txt": uuid.uuid4().hex}
    recipe = CASE.recipe.model_copy(
        update={
            "packages": ("memcached", "postgresql"),
            "services": FORMS,
            "files": (*CASE.recipe.files, *(SourceFile(path=path, content=text) for path, text in files.items())),
        }
    )
    plans = [
        PlannedService.model_validate(
            {"name": s.name, "package": packages[s.name], "port": s.ports[0], "use": "change", "purpose": "p"}
        )
        for s in FORMS
    ]
    empty = Environment(
        seed=CASE.draft.seed,
        manifest=CASE.manifest.model_copy(update={"services": plans}),
        recipe=recipe,
        attempts=(),
        base_image=example.BASE,
    )
    built = rebuild(empty, recipe, CASE.scenario, sandbox=sandbox, build_seconds=600)
    assert built.e0 is not None, built.attempts[-1]
    assert [service.ports for service in built.e0.services] == [(5432,), (11211,), (8000,)]
    assert "psql" in built.e0.tools
    with sandbox.open(Run(built.image or "", ("sleep", "600"), "s")) as session:
        assert session.exec(("/usr/local/sbin/services", "true"), seconds=120).ok
        asked = session.exec(
            ("psql", "-At", "-h", "127.0.0.1", "-c", "UPDATE stock SET quantity = 61 RETURNING *", "postgres"),
            user="agent",
        )
        assert asked.output.splitlines()[0] == "BOLT-8|61", asked.output
        assert session.exec(("ls", "/srv/shop"), user="agent").exit_code != 0
