"""What writers and repairs of a task are told about services, and what they may do about them."""

from __future__ import annotations

from typing import Any

import pytest

from facet_dagster.adapters.memory import ScriptedLLM
from facet_dagster.domain.environment import (
    E0,
    BuildAttempt,
    Environment,
    FileEdit,
    PlannedService,
    RunningService,
    Service,
)
from facet_dagster.domain.task import (
    CollectCommand,
    Draft,
    InstructionReply,
    SolutionReply,
    Task,
    TaskRepairReply,
    VerifierReply,
)
from facet_dagster.prompts import render
from facet_dagster.stages.task.draft import draft, e0_digest, shared_variables
from facet_dagster.stages.task.edits import apply_edits, changed_targets
from facet_dagster.stages.task.repair import finish
from facet_dagster.stages.task.validate import first_validation
from tests.fixtures import task_example as example
from tests.fixtures.task_bench import E0_STATUSES, bench

SERVICE = Service(
    name="db", command="exec db", healthcheck="ask db", user="redis", ports=(6379,), set_up="load data/sales.csv"
)
LOOK = CollectCommand(command="ask db > /logs/artifacts/db.json")
READS = example.VERIFIER.model_copy(
    update={"helpers": example.VERIFIER.helpers + '\nSEEN = Path("/logs/artifacts")\n', "collect": [LOOK]}
)
SCHEMAS = {"instruction": InstructionReply, "solution": SolutionReply, "verifier": VerifierReply}


def environment(use: str = "change") -> Environment:
    plain = example.environment()
    assert isinstance(plain.e0, E0)
    plan = PlannedService.model_validate(
        {"name": "db", "package": "redis-server", "port": 6379, "use": use, "purpose": "the stock"}
    )
    running = RunningService(name="db", ports=(6379,), processes=("redis-server",))
    return plain.model_copy(
        update={
            "manifest": plain.manifest.model_copy(update={"services": [plan]}),
            "recipe": plain.recipe.model_copy(update={"services": (SERVICE,)}),
            "e0": plain.e0.model_copy(update={"services": (running,)}),
        }
    )


def written(given: Environment, *verifiers: VerifierReply) -> tuple[Draft, ScriptedLLM]:
    llm = ScriptedLLM(
        {"instruction": [example.INSTRUCTION], "solution": [example.SOLUTION], "verifier": list(verifiers)}
    )
    value = draft(example.SEED, example.SCENARIO, given, llm=llm).value
    assert isinstance(value, Draft)
    return value, llm


def test_writers_are_told_how_a_service_is_reached_and_what_it_was_given() -> None:
    _, llm = written(environment(), READS)
    for (call, _, _), variables in zip(llm.asked, llm.variables, strict=True):
        (told,) = variables["e0"]["services"]
        assert (told["port"], told["user"], told["use"], told["purpose"]) == (6379, "redis", "change", "the stock")
        assert (told["log"], told["processes"]) == ("/var/log/facet/db.log", ["redis-server"])
        assert told["set_up"] == "load data/sales.csv"
        assert "Services r" in render(call, variables, SCHEMAS[call]).user.partition("Answer with one JSON")[0]


def test_without_services_no_prompt_speaks_of_them() -> None:
    _, llm = written(example.environment(), example.VERIFIER)
    assert "services" not in shared_variables(example.SCENARIO, example.environment())["e0"]
    for (call, _, _), variables in zip(llm.asked, llm.variables, strict=True):
        user = render(call, variables, SCHEMAS[call]).user.partition("Answer with one JSON")[0]
        assert "ervices r" not in user
        assert "\n\n\n" not in user


def test_what_the_verifier_collects_stands_beside_it_in_the_draft() -> None:
    value, _ = written(environment(), READS)
    assert value.collect == (LOOK,)
    assert value.verifier == READS.model_copy(update={"collect": []})
    assert '"collect"' not in value.verifier.model_dump_json()
    assert value.e0_digest == e0_digest(environment())


@pytest.mark.parametrize(
    ("given", "verifier", "said"),
    [
        (environment(), example.VERIFIER, "The work changes service db, but no collect command looks at it"),
        (environment(), READS.model_copy(update={"collect": []}), "no collect command writes there"),
        (environment(), example.VERIFIER.model_copy(update={"collect": [LOOK]}), "but no check reads there"),
        (example.environment(), READS, "the environment runs no service"),
        (
            environment(),
            READS.model_copy(update={"collect": [CollectCommand(command="ask db > /tmp/x")]}),
            "writes nothing below /logs/artifacts",
        ),
    ],
)
def test_a_verifier_that_cannot_see_the_service_is_asked_again(
    given: Environment, verifier: VerifierReply, said: str
) -> None:
    good = READS if given.recipe.services else example.VERIFIER
    value, llm = written(given, verifier, good)
    assert any(said in problem["log_tail"] for problem in llm.variables[-1]["problems"])
    assert value.collect == tuple(good.collect)


def test_a_service_that_is_only_read_needs_no_collect_command() -> None:
    value, llm = written(environment("query"), example.VERIFIER)
    assert (len(llm.asked), value.collect) == (3, ())


def repair(component: str, **values: Any) -> TaskRepairReply:
    return TaskRepairReply.model_validate({"component": component, "evidence": "e", **values})


def test_collect_commands_are_repaired_with_the_verifier_and_never_fewer() -> None:
    old = example.draft(collect=(LOOK,))
    more = [LOOK, CollectCommand(command="ask db keys > /logs/artifacts/keys.txt")]
    edited = apply_edits(old, repair("verifier", put_collect=more))
    assert isinstance(edited, Draft)
    assert edited.collect == tuple(more)
    assert changed_targets(repair("verifier", put_collect=more)) == ("collect",)
    lost = repair("verifier", put_collect=more[1:])
    assert "would no longer write /logs/artifacts/db.json" in str(apply_edits(old, lost))
    assert "put_collect writes the verifier" in str(apply_edits(old, repair("solution", put_collect=more)))
    service = [SERVICE.model_dump()]
    assert "put_services writes the environment" in str(apply_edits(old, repair("verifier", put_services=service)))


def test_a_repair_of_the_task_may_replace_a_service() -> None:
    better = SERVICE.model_copy(update={"command": "exec db --good"})
    asked: list[tuple[tuple[Service, ...], tuple[FileEdit, ...]]] = []

    def rebuild(given: Environment, edits: tuple[FileEdit, ...]) -> Environment:
        asked.append((given.recipe.services, edits))
        attempt = BuildAttempt(round=1, recipe="r2", problems=("Service db has ended.",))
        return given.model_copy(update={"attempts": (*given.attempts, attempt)})

    sandbox = bench(lambda _: E0_STATUSES)
    task = first_validation(
        example.draft(), example.environment(), example.SCENARIO, sandbox=sandbox, trial_seconds=60
    ).value
    assert isinstance(task, Task)
    llm = ScriptedLLM({"repair_task": [repair("environment", put_services=[better.model_dump()])]})
    value = finish(
        task, environment(), example.SCENARIO, llm=llm, sandbox=sandbox, trial_seconds=60, rounds=1, rebuild=rebuild
    ).value
    assert isinstance(value, Task)
    assert asked == [((better,), ())]
    assert value.repairs[0].changed == ("service db",)
    assert value.repairs[0].result.endswith("Service db has ended.")
    shown = render("repair_task", llm.variables[0], TaskRepairReply).user
    assert "put_services (environment) gives a whole new version" in shown
