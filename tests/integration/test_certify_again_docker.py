"""A certificate run again from its package alone, on a real engine, by the real command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.adapters.memory import MemoryArtifactStore, ScriptedLLM
from facet_dagster.domain.archive import unpack
from facet_dagster.domain.task import Certificate, Task
from facet_dagster.errors import ConfigError
from facet_dagster.reports.revalidate import package_of
from facet_dagster.stages.task.certificate import certify
from facet_dagster.stages.task.certificate.again import Again, run_again
from facet_dagster.stages.task.certificate.carried import read_carried
from facet_dagster.stages.task.package import Package, export
from facet_dagster.stages.task.validate import first_validation
from tests.fixtures import seeded_example as seeded
from tests.fixtures import task_example as example
from tests.fixtures.examination import CRASH, MUTANTS, second

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerSandbox]:
    sandbox = DockerSandbox(slots_dir=tmp_path_factory.mktemp("slots"))
    yield sandbox
    sandbox.close()


@pytest.fixture(scope="module")
def archive(sandbox: DockerSandbox) -> Iterator[bytes]:
    """The package of a task with a generator that has a strict certificate."""
    with seeded.built(sandbox) as environment:
        draft = example.draft(environment.image or "")
        task = first_validation(draft, environment, example.SCENARIO, sandbox=sandbox, trial_seconds=60).value
        assert isinstance(task, Task)
        asked: dict[str, Any] = {"semantic_mutants": [{"mutants": MUTANTS}] * 2, "second_solution": [second()]}
        store = MemoryArtifactStore()
        outcome = certify(
            task,
            example.SCENARIO,
            example.SKILLS,
            sandbox=sandbox,
            store=store,
            trial_seconds=60,
            day=example.DAY,
            level="strict",
            llm=ScriptedLLM({**asked, "blind_verifier": [example.as_json(example.VERIFIER)]}),
        )
        assert isinstance(outcome.value, Certificate), outcome.rejection
        yield store.get(outcome.value.package)


@pytest.fixture
def folder(archive: bytes, tmp_path: Path) -> Path:
    export(archive, tmp_path / "package")
    return tmp_path / "package"


def command(*argv: str, home: Path) -> tuple[int, str, str]:
    """`facet certify` on a machine without a ledger: no server answers there, and the home is empty."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("FACET_")}
    env = {**inherited, "FACET_HOME": str(home / "home"), "FACET_POSTGRES_URL": "postgresql://127.0.0.1:9/none"}
    called = [sys.executable, "-m", "facet_dagster.cli", "certify", *argv]
    done = subprocess.run(called, env=env, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout, done.stderr


def test_a_package_carries_what_its_certificate_needs(archive: bytes) -> None:
    files = unpack(archive)
    assert {"certificate/task.json", "certificate/semantic_mutants.json", "certificate/second_solutions.json"} <= {
        *files
    }
    stored = json.loads(files["certificate.json"].data)
    kinds = {probe["kind"] for probe in stored["probes"]}
    assert {"reseeded", "stale", "semantic", "second", "blind", "rebuilt"} <= kinds
    carried, replies = read_carried(package_of(archive))
    assert (carried.environment.e0, carried.draft.verifier) == (None, example.VERIFIER)
    assert (list(replies.second), replies.blind) == (["S1"], example.VERIFIER)


def test_the_certificate_agrees_with_itself_without_ledger_and_model(folder: Path, tmp_path: Path) -> None:
    code, text, errors = command(str(folder), "--json", home=tmp_path)
    assert code == 0, text + errors
    found = json.loads(text)
    assert (found["differences"], found["rejection"], found["level"]) == ([], None, "strict")
    ids = {probe["id"] for probe in found["probes"]}
    assert {
        "oracle/3",
        "twice/1",
        "attack/forged",
        "reseeded/1",
        CRASH,
        "S1",
        "blind/solution",
        "blind/S1",
        "rebuilt/1",
    } <= ids
    assert not (tmp_path / "home" / "postgres").exists()


def test_a_weaker_verifier_is_told_file_by_file_and_probe_by_probe(folder: Path, tmp_path: Path) -> None:
    checks = folder / "tests" / "checks.py"
    text = checks.read_text()
    assert text.count("assert ids == sorted(ids), ids") == 1
    checks.write_text(text.replace("assert ids == sorted(ids), ids", "assert ids, ids"))
    code, said, errors = command(str(folder), home=tmp_path)
    assert code == 1, said + errors
    assert "tests/checks.py is not the file that was certified." in said
    assert "Not certified now, task.mutant_survived" in said
    assert "M6 got reward 0 and now 1; checks that fail now: none." in said


def test_what_is_no_package_is_bad_input(folder: Path, tmp_path: Path) -> None:
    code, _, said = command(str(tmp_path), home=tmp_path)
    assert (code, "holds no task.toml" in said) == (2, True)
    (folder / "certificate" / "task.json").write_text('{"draft": 1}')
    code, _, said = command(str(folder), home=tmp_path)
    assert (code, "is damaged" in said) == (2, True)
    (folder / "certificate" / "task.json").unlink()
    code, _, said = command(str(folder), home=tmp_path)
    assert (code, "holds no certificate/task.json" in said) == (2, True)
    code, _, said = command(str(folder), "--level", "high", home=tmp_path)
    assert (code, "no level 'high'" in said) == (2, True)


def altered(archive: bytes, path: str, old: str, new: str) -> Package:
    package = package_of(archive)
    text = package.files[path].decode()
    assert text.count(old) == 1, path
    return Package({**package.files, path: text.replace(old, new).encode()}, package.executable)


def again(package: Package, sandbox: DockerSandbox) -> Again:
    return run_again(package, sandbox=sandbox, level="basic")


def test_a_solution_that_rotted_and_a_verifier_that_accepts_nothing_done(
    archive: bytes, sandbox: DockerSandbox
) -> None:
    rotten = again(altered(archive, "solution/solve.sh", "cd /app\n", "cd /app\ntest -e /app/gone\n"), sandbox)
    assert rotten.rejection is not None
    assert (rotten.rejection.reason, [probe.id for probe in rotten.probes]) == ("task.flaky", ["oracle/1"])
    assert any(line.startswith("oracle/1") for line in rotten.differences)
    assert any(line.startswith("Not run again: ") for line in rotten.differences)


def test_levels_below_the_certificate_leave_out_what_is_above(archive: bytes, sandbox: DockerSandbox) -> None:
    found = again(package_of(archive), sandbox)
    assert (found.level, found.agrees) == ("basic", True)
    assert not {probe.kind for probe in found.probes} & {"semantic", "second", "blind"}


def test_a_package_without_a_certificate_is_no_input(archive: bytes, sandbox: DockerSandbox) -> None:
    package = package_of(archive)
    files = {path: data for path, data in package.files.items() if path != "certificate.json"}
    with pytest.raises(ConfigError, match=r"no certificate\.json"):
        run_again(Package(files), sandbox=sandbox)
