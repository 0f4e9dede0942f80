"""A complete task judged by a real engine: fresh containers, no network, the images of the package."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.adapters.memory import MemoryArtifactStore, ScriptedLLM
from facet_dagster.domain.archive import unpack
from facet_dagster.domain.dockerfile import environment_executables, environment_files
from facet_dagster.domain.environment import BuildAttempt, Environment, SourceFile
from facet_dagster.domain.outcome import Component, Reason
from facet_dagster.domain.task import Certificate, Draft, Task
from facet_dagster.domain.trial import End, TrialKind
from facet_dagster.ports import BuildContext, Built
from facet_dagster.stages.task.certificate import certify
from facet_dagster.stages.task.images import images
from facet_dagster.stages.task.package import TaskLimits
from facet_dagster.stages.task.repair import finish
from facet_dagster.stages.task.validate import first_validation, solve_sh, trials_of
from tests.fixtures import task_example as example

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerSandbox]:
    sandbox = DockerSandbox(slots_dir=tmp_path_factory.mktemp("slots"))
    yield sandbox
    sandbox.close()


@pytest.fixture(scope="module")
def environment(sandbox: DockerSandbox) -> Iterator[Environment]:
    """The example's environment with content of this run alone, so that no other run removes its images."""
    mark = SourceFile(path="notes.txt", content=uuid.uuid4().hex)
    recipe = example.RECIPE.model_copy(update={"files": (*example.RECIPE.files, mark)})
    files = environment_files(recipe, example.MANIFEST, example.BASE)
    built = sandbox.build(BuildContext(files, environment_executables(recipe)), subject=example.SEED.key)
    assert isinstance(built, Built), built
    yield example.environment(built.image).model_copy(update={"recipe": recipe})
    sandbox.remove_image(built.image)


def validated(draft: Draft, environment: Environment, sandbox: DockerSandbox, seconds: float = 60.0) -> Task:
    outcome = first_validation(draft, environment, example.SCENARIO, sandbox=sandbox, trial_seconds=seconds)
    assert isinstance(outcome.value, Task)
    return outcome.value


def refused(
    draft: Draft, environment: Environment, sandbox: DockerSandbox, seconds: float = 60.0
) -> tuple[Reason, Component]:
    rejection = validated(draft, environment, sandbox, seconds).validations[-1].rejection
    assert rejection is not None
    return rejection.reason, rejection.component


def test_a_sound_task_refuses_e0_accepts_the_solution_and_is_certified(
    environment: Environment, sandbox: DockerSandbox
) -> None:
    task = validated(example.draft(environment.image or ""), environment, sandbox)
    baseline, oracle = task.validations[0].baseline, task.validations[0].oracle
    assert task.valid, task.validations
    assert baseline is not None
    assert oracle is not None
    assert (baseline.reward, oracle.reward) == (0, 1)
    assert {c.id for c in baseline.checks if c.status == "pass"} == {"C13"}
    assert task.validations[0].remarks == ()
    assert {c.status for c in oracle.checks} == {"pass"}

    store = MemoryArtifactStore()
    outcome = certify(
        task, example.SCENARIO, example.SKILLS, sandbox=sandbox, store=store, trial_seconds=60, day=example.DAY
    )
    assert outcome.rejection is None
    assert isinstance(outcome.value, Certificate)
    assert (outcome.value.oracle, outcome.value.baseline) == ((1, 1, 1), (0, 0))
    assert "tests/e0/data/sales.csv" in unpack(store.get(outcome.value.package))


def test_the_packaged_image_and_the_shared_one_judge_alike(environment: Environment, sandbox: DockerSandbox) -> None:
    """Also to a verifier that looks at its own folder: names, modes, owners and contents are the same."""
    look = (
        'import os\nseen = []\nfor folder, _, names in os.walk("/tests"):\n    for name in [".", *names]:\n'
        "        path = os.path.join(folder, name)\n        status = os.stat(path)\n"
        "        seen.append((path, status.st_mode, status.st_uid, status.st_gid))\nassert not seen, sorted(seen)[:6]"
    )
    draft = example.draft(environment.image or "", verifier=example.with_check(13, body=look))
    found = []
    for packaged in (False, True):
        with trials_of(draft, environment, sandbox=sandbox, limits=TaskLimits.of(60), packaged=packaged) as bench:
            found.append([bench.run(kind, solve_sh(draft)) for kind in TrialKind])
    shared, packed = ([(trial.reward, trial.checks) for trial in trials] for trials in found)
    assert shared == packed
    assert "test.sh" in shared[1][1][12].message or "checks.py" in shared[1][1][12].message


def test_wrong_work_is_refused_with_the_checks_that_saw_it(environment: Environment, sandbox: DockerSandbox) -> None:
    draft = example.draft(
        environment.image or "", solution=example.solution(example.SOLVE.replace('"empty"', '"unknown"'))
    )
    task = validated(draft, environment, sandbox)
    rejection = task.validations[0].rejection
    assert rejection is not None
    assert rejection.reason is Reason.TASK_ORACLE_FAILED
    assert [c["id"] for c in rejection.evidence["checks"]] == ["C9", "C11"]
    assert rejection.evidence["checks"][0]["log_tail"] == "row 4: expected empty, found unknown"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("echo going down >&2; exit 3", Reason.TASK_SOLUTION_CRASHED),
        ("touch /root/x", Reason.TASK_SOLUTION_CRASHED),
        ("echo x >> /solution/solve.sh", Reason.TASK_SOLUTION_CRASHED),
        ("python3 -c 'x = bytearray(3_000_000_000); print(len(x))'", Reason.TASK_RESOURCES),
    ],
)
def test_a_solution_that_fails_is_blamed(
    environment: Environment, sandbox: DockerSandbox, line: str, reason: Reason
) -> None:
    draft = example.draft(
        environment.image or "", solution=example.solution(f"set -e\n{line.replace('/solution/', '/solu*/')}\n")
    )
    assert refused(draft, environment, sandbox) == (reason, Component.SOLUTION)


def test_a_solution_that_hangs_runs_into_the_limit(environment: Environment, sandbox: DockerSandbox) -> None:
    draft = example.draft(environment.image or "", solution=example.solution("sleep 600 & sleep 600\n"))
    task = validated(draft, environment, sandbox, seconds=2)
    rejection, oracle = task.validations[0].rejection, task.validations[0].oracle
    assert rejection is not None
    assert (rejection.reason, rejection.component) == (Reason.TASK_TIMEOUT, Component.SOLUTION)
    assert oracle is not None
    assert oracle.solution is not None
    assert oracle.solution.end is End.TIMEOUT


def test_a_verifier_that_accepts_e0_is_refused(environment: Environment, sandbox: DockerSandbox) -> None:
    checks = [c.model_copy(update={"body": "assert APP.is_dir()", "depends_on": []}) for c in example.CHECKS]
    helpers = example.HELPERS + "# totals.json rejects.csv\n"
    draft = example.draft(
        environment.image or "", verifier=example.VERIFIER.model_copy(update={"checks": checks, "helpers": helpers})
    )
    assert refused(draft, environment, sandbox) == (Reason.TASK_BASELINE_PASSED, Component.VERIFIER)


def test_a_verifier_that_fails_in_its_own_code_is_refused(environment: Environment, sandbox: DockerSandbox) -> None:
    helpers = example.HELPERS.replace(
        "def totals():", "def totals():\n    if not APP:\n        late = 1\n    late += 1"
    )
    draft = example.draft(environment.image or "", verifier=example.VERIFIER.model_copy(update={"helpers": helpers}))
    assert refused(draft, environment, sandbox) == (Reason.TASK_VERIFIER_BROKEN, Component.VERIFIER)


def test_a_verifier_that_hangs_is_blamed(environment: Environment, sandbox: DockerSandbox) -> None:
    slow = example.with_check(1, body="while True:\n    totals_seen = 1\nassert totals()")
    assert refused(example.draft(environment.image or "", verifier=slow), environment, sandbox, 2) == (
        Reason.TASK_TIMEOUT,
        Component.VERIFIER,
    )


def test_an_image_that_is_gone_is_built_again(environment: Environment, sandbox: DockerSandbox) -> None:
    gone = BuildAttempt(round=0, recipe="r", image="facet/gone:0")
    lost = environment.model_copy(update={"attempts": (gone,)})
    assert validated(example.draft("facet/gone:0"), lost, sandbox).valid


def test_a_wrong_solution_is_repaired_on_evidence_and_everything_is_judged_again(
    environment: Environment, sandbox: DockerSandbox
) -> None:
    wrong = example.solution(example.SOLVE.replace('"empty"', '"none"'))
    edit = {"target": "solve.sh", "find": '"none"', "replace": '"empty"'}
    llm = ScriptedLLM({"repair_task": [{"component": "solution", "evidence": "rule 1", "edits": [edit]}]})
    outcome = finish(
        validated(example.draft(environment.image or "", solution=wrong), environment, sandbox),
        environment,
        example.SCENARIO,
        llm=llm,
        sandbox=sandbox,
        trial_seconds=60,
        rounds=5,
    )
    assert outcome.rejection is None
    assert outcome.numbers["repairs"] == 1
    shown = llm.variables[0]["evidence"]["checks_not_passed"]
    assert [check["id"] for check in shown] == ["C9", "C11"]


def test_the_verifier_image_goes_and_the_environment_image_stays(
    environment: Environment, sandbox: DockerSandbox
) -> None:
    with images(
        example.draft(environment.image or ""), environment, sandbox=sandbox, limits=TaskLimits.of(60), packaged=True
    ) as both:
        assert sandbox.image(both.verifier) is not None
    assert sandbox.image(both.verifier) is None
    assert sandbox.image(both.environment) is not None
