"""`facet revalidate`: the real command over a ledger with certified tasks, on a real engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from facet_dagster.adapters.docker_sandbox import DockerSandbox
from facet_dagster.connect import open_ledger, open_store
from facet_dagster.domain.facts import AttemptFact, CandidateFact, ModelCallFact, SeedFact
from facet_dagster.domain.outcome import Value, Verdict
from facet_dagster.domain.task import Certificate, Task
from facet_dagster.funnel import Outcome, plan, run_stage
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.ports import ArtifactStore
from facet_dagster.reports.revalidate import package_of
from facet_dagster.settings import Settings
from facet_dagster.stages.task.certificate import certify
from facet_dagster.stages.task.package import Package
from facet_dagster.stages.task.validate import first_validation
from tests.conftest import Databases
from tests.e2e.conftest import Installation, installation
from tests.fixtures import seeded_example as seeded
from tests.fixtures import task_example as example

pytestmark = [pytest.mark.postgres, pytest.mark.docker]
SOUND, ROTTEN, OLD = (f"261130-{letter}00000000000" for letter in "abc")


@pytest.fixture(scope="module")
def home(databases: Databases) -> Iterator[Installation]:
    """Three certified tasks: one that stands, one that rotted, one whose package carries nothing to run again."""
    url = databases.new_migrated()
    for made in installation(FACET_POSTGRES_URL=url):
        _fill(Settings(home=made.home, postgres_url=url, certificate="basic"))
        yield made
    databases.drop(url)


def _fill(settings: Settings) -> None:
    ledger, store, graph = open_ledger(settings), open_store(settings), seed_stages(settings)
    pair = {"candidate": "pair-1", "first": "1", "second": "2"}
    ledger.append([CandidateFact(version="1", anchor="1", score=1.0, verdict=Verdict.ACCEPTED, **pair)])
    keys = [SOUND, ROTTEN, OLD]
    ledger.append(SeedFact(key=key, batch="b", scenario="s", families=["data", "ai"], **pair) for key in keys)
    task, certificate = _certified(store)
    shared: dict[str, Value] = {
        "seed": example.SEED,
        "scenario": example.SCENARIO,
        "first_build": task.environment,
        "environment": task.environment,
        "task_draft": task.draft,
        "first_validation": task,
        "task": task,
    }
    packages = dict(zip(keys, _packages(certificate, store), strict=True))
    for stage in graph:
        work = plan(stage, keys, ledger).work
        report = run_stage(
            stage.name,
            work,
            lambda key, name=stage.name: Outcome(  # type: ignore[misc]
                shared.get(name) or certificate.model_copy(update={"package": packages[key]})
            ),
            ledger=ledger,
            store=store,
            emit=lambda _: None,
        )
        assert not report.failed


def _certified(store: ArtifactStore) -> tuple[Task, Certificate]:
    sandbox = DockerSandbox()
    with seeded.built(sandbox) as environment:
        draft = example.draft(environment.image or "")
        task = first_validation(draft, environment, example.SCENARIO, sandbox=sandbox, trial_seconds=60).value
        assert isinstance(task, Task)
        found = certify(
            task,
            example.SCENARIO,
            example.SKILLS,
            sandbox=sandbox,
            store=store,
            trial_seconds=60,
            day=example.DAY,
        ).value
    sandbox.close()
    assert isinstance(found, Certificate)
    return task, found


def _packages(certificate: Certificate, store: ArtifactStore) -> list[str]:
    whole = package_of(store.get(certificate.package))
    rotten = {**whole.files, "tests/checks.py": whole.files["tests/checks.py"] + b"\nimport gone_with_the_old_python\n"}
    old = {path: data for path, data in whole.files.items() if not path.startswith("certificate/")}
    return [certificate.package, *(store.put(Package(files, whole.executable).tar()) for files in (rotten, old))]


def test_verdicts_that_changed_are_told_and_recorded_without_a_model(home: Installation) -> None:
    done = home.call("revalidate", "--level", "basic", "--json")
    assert done.returncode == 1, done.stderr
    ledger = open_ledger(
        Settings(home=home.home, postgres_url=home.settings["FACET_POSTGRES_URL"], certificate="basic")
    )
    found = {line["key"]: line for line in home_json(done.stdout)}
    assert {key: line["verdict"] for key, line in found.items()} == {SOUND: "stands", ROTTEN: "rotten", OLD: "unknown"}
    assert found[ROTTEN]["rejection"]["reason"] == "task.flaky"
    assert "tests/checks.py is not the file that was certified." in found[ROTTEN]["differences"]
    assert "certificate/task.json" in found[OLD]["trouble"]
    rows = ledger.find(AttemptFact, stage="revalidate")
    assert {(row.key, row.ok, row.round) for row in rows} == {(SOUND, True, 0), (ROTTEN, False, 0)}
    assert ledger.find(ModelCallFact) == []
    story = home.json("why", ROTTEN)
    assert [attempt["ok"] for attempt in story["attempts"] if attempt["stage"] == "revalidate"] == [False]


def home_json(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(text)
    return found


def test_a_key_leads_to_its_package(home: Installation) -> None:
    done = home.call("certify", SOUND[:8], "--level", "basic")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "agrees" in done.stdout
    missing = home.call("certify", "261130-f")
    assert missing.returncode == 2
