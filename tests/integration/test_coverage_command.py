"""`facet coverage`: the real command over a ledger with values made by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from facet_dagster.connect import open_ledger, open_store
from facet_dagster.domain.facts import CandidateFact, SeedFact
from facet_dagster.domain.outcome import Value, Verdict
from facet_dagster.funnel import Outcome, plan, run_stage
from facet_dagster.pipeline.graph import seed_stages
from facet_dagster.settings import Settings
from tests.conftest import Databases
from tests.e2e.conftest import Installation, installation
from tests.fixtures import task_example as example

pytestmark = pytest.mark.postgres
WHOLE, HOLE, NEW = (f"261130-{letter}00000000000" for letter in "abc")


class Shelf(NamedTuple):
    """An installation with a task without holes, one with a hole, and a seed that has nothing yet."""

    home: Installation


@pytest.fixture(scope="module")
def shelf(databases: Databases) -> Iterator[Shelf]:
    url = databases.new_migrated()
    for home in installation(FACET_POSTGRES_URL=url):
        _fill(Settings(home=home.home, postgres_url=url))
        yield Shelf(home)
    databases.drop(url)


def _fill(settings: Settings) -> None:
    ledger, store, graph = open_ledger(settings), open_store(settings), seed_stages(settings)
    pair = {"candidate": "pair-1", "first": "1", "second": "2"}
    ledger.append([CandidateFact(version="1", anchor="1", score=1.0, verdict=Verdict.ACCEPTED, **pair)])
    ledger.append(
        SeedFact(key=key, batch="b", scenario="s", families=["data", "ai"], **pair) for key in (WHOLE, HOLE, NEW)
    )
    steps = ["Totals (R1)", "Refused rows (R2, R3)", "Inputs are only read (R4)"]
    drafts = {
        key: example.draft(seed=key, solution=example.SOLUTION.model_copy(update={"steps": steps[:n]}))
        for key, n in ((WHOLE, 3), (HOLE, 2))
    }
    rules = {"R1": "totals (rule 1)", "R2": "refused (rules 1, 2)"}
    references = example.SCENARIO.references
    demands = [r.model_copy(update={"text": rules.get(r.rid, r.text)}) for r in references.requirements]
    scene = example.SCENARIO.model_copy(update={"references": references.model_copy(update={"requirements": demands})})
    built = example.environment()
    assert built.e0 is not None
    rows = {d.id: "row" for d in scene.reconstruction.discriminators}
    files = tuple(file.model_copy(update={"rows": rows}) for file in built.e0.files)
    built = built.model_copy(update={"e0": built.e0.model_copy(update={"files": files})})
    shared: dict[str, Value] = {"scenario": scene, "first_build": built, "environment": built, "seed": example.SEED}
    for stage in graph[:5]:
        work = plan(stage, [WHOLE, HOLE], ledger).work
        report = run_stage(
            stage.name,
            work,
            lambda key, name=stage.name: Outcome(shared.get(name) or drafts[key]),  # type: ignore[misc]
            ledger=ledger,
            store=store,
            emit=lambda _: None,
        )
        assert not report.failed


def test_a_task_without_holes_ends_well(shelf: Shelf) -> None:
    done = shelf.home.call("coverage", WHOLE[:8], "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["seed"], found["holes"]) == (WHOLE, [])
    assert {line["rid"]: line["steps"] for line in found["requirements"]} == {
        "R1": [1],
        "R2": [2],
        "R3": [2],
        "R4": [3],
    }


def test_a_hole_is_told_and_fails_the_command(shelf: Shelf) -> None:
    done = shelf.home.call("coverage", HOLE)
    assert done.returncode == 1
    assert "hole: Requirement R4 is done in no step of the solution." in done.stdout


@pytest.mark.parametrize(("ident", "said"), [(NEW, "has no draft yet"), ("pair-1", "is a candidate")])
def test_what_has_no_texts_is_said(shelf: Shelf, ident: str, said: str) -> None:
    done = shelf.home.call("coverage", ident)
    assert done.returncode == 1
    assert said in " ".join(done.stderr.split())


def test_the_modules_of_a_scenario_are_shown(shelf: Shelf) -> None:
    done = shelf.home.call("scenario", WHOLE, "--module", "expansion", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["expansion"]["discriminators"][0]["id"] == "D1"
    wrong = shelf.home.call("scenario", WHOLE, "--module", "summary")
    assert wrong.returncode == 1
    assert "this scenario has skill_analysis, exploration" in " ".join(wrong.stderr.split())
