"""Certificates on a real engine: a sound task gets one, and each defect is refused for its own reason."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

import pytest

from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.adapters.memory import MemoryArtifactStore
from facet_dagster.domain.dockerfile import environment_executables, environment_files
from facet_dagster.domain.environment import Environment, Recipe, SourceFile
from facet_dagster.domain.outcome import Reason, Rejection
from facet_dagster.domain.task import Certificate, Check, Draft, Task, Validation, VerifierReply
from facet_dagster.funnel import Outcome
from facet_dagster.ports import BuildContext, Built
from facet_dagster.stages.task.certificate import certify
from facet_dagster.stages.task.validate import first_validation
from tests.fixtures import task_example as example

pytestmark = pytest.mark.docker
TOTALS = '{"north": 11.75, "south": 4.0, "east": 0.0}'
PACKED = f'import gzip\nopen("data/old.gz", "wb").write(gzip.compress(b"""{TOTALS}""", mtime=0))\n'
HISTORY = f"""import os, zlib
os.makedirs(".git/objects/4b")
text = b'''{TOTALS}'''
open(".git/objects/4b/825dc642", "wb").write(zlib.compress(b"blob %d\\0" % len(text) + text))
"""


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerSandbox]:
    sandbox = DockerSandbox(slots_dir=tmp_path_factory.mktemp("slots"))
    yield sandbox
    sandbox.close()


class Environments:
    """Environments with content of this run alone, so that no other run removes their images."""

    def __init__(self, sandbox: DockerSandbox) -> None:
        self._sandbox, self.images = sandbox, list[str]()

    def built(self, *files: SourceFile, generator: str = "") -> Environment:
        mark = SourceFile(path="notes.txt", content=uuid.uuid4().hex)
        update = {"files": (*example.RECIPE.files, mark, *files), "generator": generator}
        recipe: Recipe = example.RECIPE.model_copy(update=update)
        context = BuildContext(
            environment_files(recipe, example.MANIFEST, example.BASE), environment_executables(recipe)
        )
        built = self._sandbox.build(context, subject=example.SEED.key)
        assert isinstance(built, Built), built
        self.images.append(built.image)
        return example.environment(built.image).model_copy(update={"recipe": recipe})


@pytest.fixture(scope="module")
def environments(sandbox: DockerSandbox) -> Iterator[Environments]:
    made = Environments(sandbox)
    yield made
    for image in made.images:
        sandbox.remove_image(image)


@pytest.fixture(scope="module")
def environment(environments: Environments) -> Environment:
    return environments.built()


def outcome_of(draft: Draft, environment: Environment, sandbox: DockerSandbox, seconds: float = 60) -> Outcome:
    """What the certificate says about a draft that a first validation accepts."""
    first = first_validation(draft, environment, example.SCENARIO, sandbox=sandbox, trial_seconds=seconds).value
    assert isinstance(first, Task)
    assert first.valid, first.validations[-1].rejection
    return certified(first, sandbox, seconds)


def certified(task: Task, sandbox: DockerSandbox, seconds: float = 60) -> Outcome:
    return certify(
        task,
        example.SCENARIO,
        example.SKILLS,
        sandbox=sandbox,
        store=MemoryArtifactStore(),
        trial_seconds=seconds,
        day=example.DAY,
    )


def refusal(draft: Draft, environment: Environment, sandbox: DockerSandbox, seconds: float = 60) -> Rejection:
    outcome = outcome_of(draft, environment, sandbox, seconds)
    assert outcome.rejection is not None, outcome.value
    return outcome.rejection


def verifier(helpers: str = example.HELPERS, checks: Sequence[Check] = example.CHECKS) -> VerifierReply:
    return VerifierReply(helpers=helpers, checks=list(checks))


def edited(text: str, *edits: tuple[str, str]) -> str:
    for find, replace in edits:
        assert text.count(find) == 1, find
        text = text.replace(find, replace)
    return text


def test_a_sound_task_is_certified_without_a_remark(environment: Environment, sandbox: DockerSandbox) -> None:
    outcome = outcome_of(example.draft(environment.image or ""), environment, sandbox)
    assert outcome.rejection is None
    assert isinstance(outcome.value, Certificate)
    found = outcome.value
    assert [probe for probe in found.probes if not probe.ok] == []
    assert (found.remarks, found.oracle, found.baseline) == ((), (1, 1, 1), (0, 0))
    assert {"attack/forged", "attack/eased", "twice/1"} <= {probe.id for probe in found.probes}
    assert not any(probe.crashed for probe in found.probes)
    assert found.kills.distinct >= 10


def test_a_verifier_that_does_without_an_output(environment: Environment, sandbox: DockerSandbox) -> None:
    lenient = '    if path.name == "rejects.csv" and not path.is_file():\n'
    lenient += '        return "id,reason\\n4,empty\\n5,unknown\\n6,empty\\n"\n'
    helpers = edited(example.HELPERS, ("def text_of(path):\n", "def text_of(path):\n" + lenient))
    rejection = refusal(example.draft(environment.image or "", verifier=verifier(helpers)), environment, sandbox)
    assert rejection.reason is Reason.TASK_PARTIAL_ACCEPTED
    assert rejection.evidence["probe"]["id"] == "partial/out/rejects.csv:removed"


def test_a_verifier_that_takes_what_it_expects_from_files_of_the_agent(
    environment: Environment, sandbox: DockerSandbox
) -> None:
    """Under a name by which the lint does not know an expectation."""
    helpers = edited(
        example.HELPERS,
        ('(E0 / "data/regions.json")', '(APP / "data/regions.json")'),
        ('rows_of(E0 / "data/sales.csv")', 'rows_of(APP / "data/sales.csv")'),
        ("expected()[0][region], totals().get(region)", "expected()[0].get(region, 0), totals().get(region, 0)"),
        ("expected()[1][ident]", "expected()[1].get(ident)"),
    ).replace("expected()", "reckoned()")
    unchanged = 'assert (APP / "data/sales.csv").is_file(), "the sales are gone"'
    bodies = {c.id: c.body.replace("expected()", "reckoned()") for c in example.CHECKS} | {"C13": unchanged}
    checks = [c.model_copy(update={"body": bodies[c.id]}) for c in example.CHECKS]
    draft = example.draft(environment.image or "", verifier=verifier(helpers, checks))
    rejection = refusal(draft, environment, sandbox)
    assert rejection.reason is Reason.TASK_ATTACK_ACCEPTED
    assert rejection.evidence["probe"]["id"] == "attack/eased"


def test_a_verifier_that_imports_what_the_agent_planted(environment: Environment, sandbox: DockerSandbox) -> None:
    """The lint refuses such a verifier before any trial; here it is taken as valid."""
    lazy = 'import sys\nif (APP / "helpers.py").is_file():\n    sys.path.insert(0, str(APP))\n    import helpers\n'
    draft = example.draft(environment.image or "", verifier=verifier(lazy + example.HELPERS))
    valid = Validation(round=0, baseline=None, oracle=None, rejection=None)
    task = Task(seed=draft.seed, title="t", draft=draft, environment=environment, validations=(valid,))
    rejection = certified(task, sandbox).rejection
    assert rejection is not None
    assert rejection.reason is Reason.TASK_ATTACK_ACCEPTED
    assert rejection.evidence["probe"]["id"] == "attack/forged"


def test_a_verifier_that_a_copied_input_satisfies(environment: Environment, sandbox: DockerSandbox) -> None:
    shallow = 'assert json.loads(text_of(APP / "out/totals.json")), "no totals"\n'
    shallow += 'assert len(rows_of(APP / "out/rejects.csv")) > 1, "no rows"'
    checks = [c if c.invariant else c.model_copy(update={"body": shallow}) for c in example.CHECKS]
    draft = example.draft(environment.image or "", verifier=verifier(checks=checks))
    rejection = refusal(draft, environment, sandbox)
    assert rejection.reason is Reason.TASK_ATTACK_ACCEPTED
    assert rejection.evidence["probe"]["id"] == "attack/input_copy"


def test_a_solution_that_appends_when_it_runs_again(environment: Environment, sandbox: DockerSandbox) -> None:
    appending = edited(example.SOLVE, ('"out/rejects.csv", "w"', '"out/rejects.csv", "a"'))
    draft = example.draft(environment.image or "", solution=example.solution(appending))
    assert refusal(draft, environment, sandbox).reason is Reason.TASK_NOT_IDEMPOTENT


def test_a_check_that_depends_on_the_time_zone(environment: Environment, sandbox: DockerSandbox) -> None:
    local = "from datetime import datetime\nassert datetime.fromtimestamp(0).hour == 0, totals()"
    checks = [c.model_copy(update={"body": local}) if c.id == "C6" else c for c in example.CHECKS]
    draft = example.draft(environment.image or "", verifier=verifier(checks=checks))
    rejection = refusal(draft, environment, sandbox)
    assert rejection.reason is Reason.TASK_FLAKY
    assert [c["id"] for c in rejection.evidence["failed"]] == ["C6"]


def test_a_solution_that_needs_most_of_its_time(environment: Environment, sandbox: DockerSandbox) -> None:
    slow = edited(example.SOLVE, ("mkdir -p out\n", "mkdir -p out\nsleep 6\n"))
    draft = example.draft(environment.image or "", solution=example.solution(slow))
    assert refusal(draft, environment, sandbox, seconds=10).reason is Reason.TASK_TIGHT_LIMITS


@pytest.mark.parametrize(
    ("files", "generator", "path"),
    [
        ((SourceFile(path=".last/run.json", content=TOTALS),), "", "/app/.last/run.json"),
        ((), PACKED, "/app/data/old.gz"),
        ((), HISTORY, "/app/.git/objects/4b/825dc642"),
    ],
    ids=["a hidden file", "a compressed file", "the history of a repository"],
)
def test_an_answer_in_the_image(
    environments: Environments, sandbox: DockerSandbox, files: tuple[SourceFile, ...], generator: str, path: str
) -> None:
    leaking = environments.built(*files, generator=generator)
    rejection = refusal(example.draft(leaking.image or ""), leaking, sandbox)
    assert rejection.reason is Reason.TASK_SOLUTION_LEAKED
    assert rejection.evidence["path"] == path
    assert "out/totals.json" in rejection.message
