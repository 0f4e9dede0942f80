from __future__ import annotations

import tomllib

import pytest

from facet_dagster.adapters.memory_sandbox import Exec, ExecScript, MemorySandbox, ended
from facet_dagster.domain.archive import pack, unpack
from facet_dagster.domain.environment import Service
from facet_dagster.domain.outcome import Component, Reason
from facet_dagster.domain.task import CollectCommand
from facet_dagster.domain.trial import End, ExecResult, Trial, TrialKind
from facet_dagster.errors import SandboxError, SessionOver
from facet_dagster.ports import Run, RunOutcome
from facet_dagster.stages.task.images import Images
from facet_dagster.stages.task.lint import lint
from facet_dagster.stages.task.live import CLAIM
from facet_dagster.stages.task.package import TaskLimits, build_package
from facet_dagster.stages.task.trial import Trials
from facet_dagster.stages.task.validate import classify_baseline, classify_oracle
from tests.fixtures import task_example as example
from tests.fixtures.task_bench import GOOD, results

BASE = "python:3.11-slim-bookworm"
SERVICE = Service(name="web", command="exec web", healthcheck="ask web", seconds=9)
LOOK = CollectCommand(command="ask web > /logs/artifacts/web.txt", seconds=5)
BOTH = Images(BASE, BASE, (SERVICE,))
START = ("/usr/local/sbin/services", "true")


def sandbox(script: dict[tuple[str, ...], ExecResult] | None = None, answer: ExecScript | None = None) -> MemorySandbox:
    def work(run: Run) -> RunOutcome:
        if run.argv[-1] == "/tests/test.sh":
            return ended(collected={"/logs/verifier": results(GOOD)})
        left = {"/app": pack({"app/done": b"x"}), "/logs/artifacts": pack({"artifacts/web.txt": b"seen"})}
        return ended(collected=left)

    def told(asked: Exec) -> ExecResult:
        return (script or {}).get(asked.argv, ended().program)

    return MemorySandbox(work, exec_script=answer or told)


def trial(bench: MemorySandbox, kind: TrialKind = TrialKind.ORACLE) -> Trial:
    return Trials(BOTH, bench, TaskLimits.of(7), "s", (LOOK,)).run(kind, b"ls\n")


@pytest.mark.parametrize(
    ("kind", "argv"), [(TrialKind.BASELINE, ("true",)), (TrialKind.ORACLE, ("bash", "/solution/solve.sh"))]
)
def test_services_first_then_the_work_then_the_commands_of_root(kind: TrialKind, argv: tuple[str, ...]) -> None:
    bench = sandbox()
    assert trial(bench, kind).reward == 1
    start, work, claim, look, stop = bench.execs
    assert (start.argv, start.user) == (START, "root")
    assert (work.argv, work.user, work.workdir, work.seconds) == (argv, "agent", "/app", 7)
    assert work.env["HOME"] == "/home/agent"
    assert (claim.argv[-1], look.argv[-1], look.user, look.seconds) == (CLAIM.command, LOOK.command, "root", 5)
    assert stop.user == "root"
    opened, judged = bench.runs
    assert opened.limits.seconds >= SERVICE.seconds + 7 + LOOK.seconds
    assert [put.target for put in judged.put] == ["/", "/logs/artifacts"]
    assert unpack(judged.put[1].archive)["web.txt"].data == b"seen"


def test_a_service_that_does_not_come_up_is_the_fault_of_the_environment() -> None:
    bench = sandbox({START: ended(1, "Service web has ended. The end of its log:\nno such file\n").program})
    done = trial(bench)
    assert (done.solution, done.collected) == (None, ())
    for rejection in (classify_baseline(done), classify_oracle(done)):
        assert rejection is not None
        assert (rejection.reason, rejection.component) == (Reason.TASK_SERVICE_FAILED, Component.ENVIRONMENT)
        assert rejection.message.startswith("Service web has ended")
        assert "no such file" in rejection.evidence["log_tail"]


def test_work_that_runs_over_its_time_ends_the_looking_and_is_still_judged() -> None:
    bench = sandbox({("bash", "/solution/solve.sh"): ended(137, end=End.TIMEOUT).program})
    done = trial(bench)
    rejection = classify_oracle(done)
    assert done.collected == ()
    assert rejection is not None
    assert rejection.reason is Reason.TASK_TIMEOUT


def test_engine_trouble_is_no_verdict() -> None:
    def lost(asked: Exec) -> ExecResult:
        raise SandboxError("gone", transient=True)

    with pytest.raises(SandboxError, match="gone"):
        trial(MemorySandbox(exec_script=lost))


@pytest.mark.parametrize("place", [0, 1, 2, 3, 4])
def test_a_full_disk_of_the_engine_is_no_verdict_wherever_it_comes(place: int) -> None:
    asked: list[Exec] = []

    def full(what: Exec) -> ExecResult:
        asked.append(what)
        if len(asked) > place:
            raise SandboxError("disk is nearly full")
        return ended().program

    with pytest.raises(SandboxError, match="nearly full"):
        trial(MemorySandbox(exec_script=full))


def test_services_that_end_the_container_are_the_fault_of_the_environment() -> None:
    def over(what: Exec) -> ExecResult:
        if what.argv != START:
            raise SessionOver("the container has ended")
        return ended().program

    rejection = classify_oracle(trial(sandbox(answer=over)))
    assert rejection is not None
    assert rejection.reason is Reason.TASK_SERVICE_FAILED


def test_the_loopback_may_be_asked_where_something_answers() -> None:
    draft = example.draft(solution=example.solution(example.SOLVE + "curl -s http://127.0.0.1:8080/ >/dev/null\n"))
    assert [p.text for p in lint(draft, example.SCENARIO, "RULES.md")] == [
        "solve.sh calls 'curl', but there is no network."
    ]
    assert lint(draft, example.SCENARIO, "RULES.md", services=True) == ()
    outside = example.draft(solution=example.solution(example.SOLVE + "apt-get install -y jq\n"))
    assert lint(outside, example.SCENARIO, "RULES.md", services=True)


def test_collect_commands_need_a_service_and_write_where_the_verifier_looks() -> None:
    lost = CollectCommand(command="ask web > /tmp/x")
    assert len(lint(example.draft(collect=(LOOK,)), example.SCENARIO, "RULES.md")) == 1
    assert len(lint(example.draft(collect=(LOOK, lost)), example.SCENARIO, "RULES.md", services=True)) == 1


def test_the_package_tells_harbor_of_services_and_what_to_collect() -> None:
    recipe = example.RECIPE.model_copy(update={"services": (SERVICE,)})
    environment = example.environment().model_copy(update={"recipe": recipe})
    built = build_package(
        example.draft(collect=(LOOK,)),
        environment,
        example.SCENARIO,
        example.SKILLS,
        e0_archive=example.E0_ARCHIVE,
        limits=TaskLimits.of(60),
    )
    facts = tomllib.loads(built.files["task.toml"].decode())
    assert facts["environment"]["healthcheck"]["start_period_sec"] > SERVICE.seconds
    assert [c["command"] for c in facts["verifier"]["collect"]] == [CLAIM.command, LOOK.command]
    assert "environment/build/services.sh" in built.executable
