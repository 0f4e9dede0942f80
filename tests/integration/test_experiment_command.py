"""`facet experiment`: the real command over two pairs of skills, with a scripted model and real containers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from facet_dagster.adapters.memory import HashEmbedder
from facet_dagster.connect import open_ledger, open_sandbox, open_store
from facet_dagster.domain.environment import Environment
from facet_dagster.domain.facts import ArtifactFact, CandidateFact, SeedFact
from facet_dagster.domain.ids import bucket_keys
from facet_dagster.domain.outcome import Verdict
from facet_dagster.funnel import plan, run_stage
from facet_dagster.pipeline import skills as pipeline
from facet_dagster.pipeline.graph import skill_stages
from facet_dagster.settings import Settings
from tests.conftest import Databases
from tests.e2e.conftest import SKILLS, Installation, installation
from tests.fixtures import handmade_model as handmade
from tests.fixtures import task_example as example
from tests.fixtures.handmade_model import HandmadeModel

pytestmark = [pytest.mark.docker, pytest.mark.postgres]
# The skills of a pair, and the fate that both carry.
PAIRS = {"valid": ("region-sums", "till-roll"), "lost-task": ("county-sums", "day-ledger")}
KEYS = {"valid": "261130-a00000000000", "lost-task": "261130-b00000000000"}


def solution(fate: str, text: str) -> Any:
    """Who sees what is checked makes no mistake here."""
    if "What the verifier checks" in text:
        return example.as_json(example.SOLUTION)
    return handmade.solution(fate, text)


def joint(fate: str, text: str) -> Any:
    parts = {"instruction": handmade.instruction, "solution": handmade.solution, "verifier": handmade.verifier}
    return {name: reply(fate, text) for name, reply in parts.items()}


def brief(fate: str, text: str) -> Any:
    references = handmade.references(fate, text)
    kept = {name: references[name] for name in ("title", "scenario", "family", "requirements", "outputs")}
    rules = example.RULES.splitlines()[2:]
    return {**kept, "initial_state": ["/app/RULES.md", "/app/data/sales.csv", "/app/data/regions.json"], "rules": rules}


ANSWERS = {**handmade.ANSWERS, "SolutionReply": solution, "JointReply": joint, "BriefReply": brief}


@dataclass(frozen=True)
class World:
    """An installation with one seed for each fate and nothing computed for it; the model counts its calls."""

    home: Installation
    model: HandmadeModel
    tape: Path

    def experiment(self, *arguments: str) -> tuple[Any, int]:
        """What the command says, and how many calls the model got meanwhile."""
        before = self.model.calls
        found = self.home.json("experiment", *arguments)
        return found, self.model.calls - before


@pytest.fixture(scope="module")
def world(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    url, tape = databases.new_migrated(), tmp_path_factory.mktemp("tape") / "experiment.jsonl"
    with HandmadeModel(answers=ANSWERS) as model:
        live = {"FACET_MODEL": "openai/handmade", "FACET_API_BASE": model.api_base, "FACET_API_KEY": "none"}
        live["FACET_RECORD"] = str(tape)
        for home in installation(FACET_POSTGRES_URL=url, FACET_TASK_REPAIRS="1", FACET_CERTIFICATE="basic", **live):
            settings = Settings(home=home.home, postgres_url=url)
            _fill(settings)
            yield World(home, model, tape)
            _remove_images(settings)
    databases.drop(url)


def _fill(settings: Settings) -> None:
    ledger, store = open_ledger(settings), open_store(settings)
    pipeline.ingest(SKILLS, ledger=ledger, store=store)
    stage = skill_stages(settings, ledger).skills
    compute = pipeline.skills(settings, ledger=ledger, store=store, embedder=HashEmbedder())
    work = plan(stage, bucket_keys(), ledger).work
    run_stage(stage.name, work, compute, ledger=ledger, store=store, emit=lambda _: None)
    ids = {skill.name: skill.id for skill in pipeline.kept_skills(settings, ledger, store).values()}
    for fate, (first, second) in PAIRS.items():
        pair = {"candidate": f"pair-{fate}", "first": ids[first], "second": ids[second]}
        scenario = f"Sum a sheet by region. Case: {fate}."
        ledger.append(
            [
                CandidateFact(version="1", anchor=ids[first], score=1.0, verdict=Verdict.ACCEPTED, **pair),
                SeedFact(key=KEYS[fate], batch="x", scenario=scenario, families=["data", "documents"], **pair),
            ]
        )


def _remove_images(settings: Settings) -> None:
    ledger, store, sandbox = open_ledger(settings), open_store(settings), open_sandbox(settings, reap=False)
    for fact in ledger.find(ArtifactFact):
        if fact.kind != "environment":
            continue
        image = Environment.model_validate_json(store.get(fact.sha256)).image
        if image:
            sandbox.remove_image(image)


def arms(found: Any) -> dict[str, Any]:
    return {arm["name"]: arm for arm in found["arms"]}


@pytest.fixture(scope="module")
def ran(world: World) -> tuple[Any, int]:
    return world.experiment("orders", "--seeds", "2", "--orders", "forward,reverse")


def test_both_orders_run_over_the_same_seeds(ran: tuple[Any, int]) -> None:
    found, calls = ran
    assert found["seeds"] == sorted(KEYS.values())
    forward, reverse = arms(found)["forward"], arms(found)["reverse"]
    assert (forward["drafts"]["count"], reverse["drafts"]["count"]) == (2, 2)
    assert (forward["initially_valid"]["count"], reverse["initially_valid"]["count"]) == (1, 2)
    assert (forward["validated"]["count"], reverse["validated"]["count"]) == (1, 2)
    assert (forward["certified"]["count"], reverse["certified"]["count"]) == (1, 2)
    assert (forward["by_round"], forward["mean_rounds"]) == ({"0": 1}, 0.5)
    assert calls > 0
    assert found["computed"] > 0


def test_what_was_lost_has_a_cause_and_a_component(ran: tuple[Any, int]) -> None:
    forward = arms(ran[0])["forward"]
    assert forward["initial_causes"] == {"solution implementation/runtime": 1}
    assert forward["final_causes"] == {"solution implementation/runtime": 1}
    assert forward["final_components"] == {"solution": 1}
    assert arms(ran[0])["reverse"]["initial_causes"] == {}


def test_the_pairs_are_compared_seed_by_seed(ran: tuple[Any, int]) -> None:
    one = next(c for c in ran[0]["comparisons"] if c["measure"] == "validated")
    cells = {name: one["paired"][name] for name in ("both", "only_first", "only_second", "neither")}
    assert cells == {"both": 1, "only_first": 0, "only_second": 1, "neither": 0}
    assert (one["first"], one["second"]) == ("forward", "reverse")
    assert (one["paired"]["difference"], one["paired"]["p"]) == (-0.5, 1.0)


def test_the_paper_stands_beside(ran: tuple[Any, int]) -> None:
    papers = {name: arm["paper"] for name, arm in arms(ran[0]).items()}
    assert (papers["forward"]["initially_valid"], papers["forward"]["drafts"]) == (46, 99)
    assert papers["reverse"]["causes"]["cross-artifact contract mismatch"] == 56.5


def test_an_arm_pays_for_shared_stages_too(ran: tuple[Any, int]) -> None:
    forward, reverse = (arms(ran[0])[name]["spending"] for name in ("forward", "reverse"))
    # Six calls make a seed's environment and three its draft; a repair of the lost one adds one in the forward order.
    assert (forward["calls"], reverse["calls"]) == (2 * 9 + 1, 2 * 9)
    assert reverse["tokens_per_task"] == (reverse["prompt_tokens"] + reverse["completion_tokens"]) / 2
    assert reverse["cost"] is None, "nobody gave a price"


def test_a_second_run_computes_nothing_and_asks_nothing(world: World, ran: tuple[Any, int]) -> None:
    again, calls = world.experiment("orders", "--seeds", "2", "--orders", "forward,reverse")
    assert (calls, again["computed"]) == (0, 0)
    assert {**again, "computed": ran[0]["computed"]} == ran[0]


def test_one_more_order_computes_only_its_own_stages(world: World, ran: tuple[Any, int]) -> None:
    found, calls = world.experiment("orders", "--seeds", "2", "--until", "task")
    assert calls == 2  # one joint reply a seed; the repair asks what the forward order asked, so it is paid already
    assert found["computed"] == 2 * 3
    assert (arms(found)["joint"]["drafts"]["count"], arms(found)["joint"]["validated"]["count"]) == (2, 1)
    assert arms(found)["forward"]["certified"] is None
    assert len(found["comparisons"]) == 3 * 2


def test_pipelines_start_from_the_same_pairs(world: World, ran: tuple[Any, int]) -> None:
    found, calls = world.experiment("pipelines", "--pairs", "1")
    by_name = arms(found)
    assert found["seeds"] == [KEYS["valid"]]
    assert {name: arm["certified"]["count"] for name, arm in by_name.items()} == {
        "direct": 1,
        "recording": 1,
        "facet": 1,
    }
    # The brief, manifest and files are shared by both baselines; a recorded session's solution is a call of its own.
    assert calls == 3 + 3 + 3
    assert {name: arm["spending"]["calls"] for name, arm in by_name.items()} == {
        "direct": 6,
        "recording": 6,
        "facet": 9,
    }
    assert by_name["recording"]["paper"]["name"] == "TW"
    assert world.experiment("pipelines", "--pairs", "1")[1] == 0


def test_the_text_names_rates_and_the_paper(world: World, ran: tuple[Any, int]) -> None:
    done = world.home.call("experiment", "orders", "--seeds", "2", "--orders", "forward,reverse", COLUMNS="200")
    assert done.returncode == 0, done.stderr
    assert "1/2 = 50.0 %" in done.stdout
    assert "paper: Forward" in done.stdout
    assert "46/99" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("orders", "--seeds", "3"), "This installation has 2 seeds, not 3"),
        (("orders", "--seeds", "1", "--orders", "backward"), "--orders takes some of forward, reverse, joint"),
        (("pipelines", "--pairs", "1", "--pipelines", ","), "not nothing"),
        (("orders", "--seeds", "1", "--until", "seed"), "--until takes one of task, certificate, not seed"),
    ],
)
def test_what_cannot_be_compared_is_said(world: World, arguments: tuple[str, ...], said: str) -> None:
    done = world.home.call("experiment", *arguments, "--json")
    assert done.returncode == 1
    assert said in " ".join(done.stderr.split())
    assert not done.stdout.strip()


def test_a_tape_gives_the_same_figures_elsewhere(world: World, ran: tuple[Any, int], databases: Databases) -> None:
    url, arguments = databases.new_migrated(), ("orders", "--seeds", "1", "--orders", "reverse", "--until", "task")
    for home in installation(
        FACET_POSTGRES_URL=url, FACET_TASK_REPAIRS="1", FACET_CERTIFICATE="basic", FACET_TAPE=str(world.tape)
    ):
        _fill(Settings(home=home.home, postgres_url=url))
        found = home.json("experiment", *arguments)
    databases.drop(url)
    again, calls = world.experiment(*arguments)
    assert calls == 0
    ours, theirs = arms(again)["reverse"], arms(found)["reverse"]
    assert ours["validated"]["count"] == 1
    assert {**theirs, "spending": ours["spending"]} == ours
    assert theirs["spending"]["prompt_tokens"] == ours["spending"]["prompt_tokens"]


def test_models_need_a_live_model(world: World) -> None:
    done = world.home.call("experiment", "orders", "--seeds", "1", "--models", "a,b", FACET_MODEL="")
    assert "--models needs a live model" in " ".join(done.stderr.split())


def test_each_model_has_results_of_its_own(world: World, ran: tuple[Any, int]) -> None:
    names = "openai/one,openai/two"
    arguments = ("orders", "--seeds", "1", "--orders", "forward", "--models", names, "--until", "task")
    found, calls = world.experiment(*arguments)
    assert set(arms(found)) == {"openai/one/forward", "openai/two/forward"}
    assert calls == 2 * 9
    assert world.experiment(*arguments)[1] == 0
    assert json.dumps(found["comparisons"][0]["first"]) == '"openai/one/forward"'


def test_a_draw_carries_pairs_that_a_number_chose(world: World) -> None:
    # The last test: a draw mints seeds of its own.
    arguments = ("draw", "--pairs", "2", "--number", "7", "--until", "task")
    found, calls = world.experiment(*arguments)
    steps = {step["name"]: step for step in found["steps"]}
    drawn = found["drawn"]
    assert len(drawn["seeds"]) == 2
    assert drawn["anchors"] == 2 + sum(drawn["lost"].values())
    assert (steps["pairs"]["rate"]["count"], steps["pairs"]["rate"]["of"]) == (2, drawn["anchors"])
    assert steps["validated_of_all"]["rate"]["of"] == 2
    assert 0 < steps["environments"]["rate"]["low"] < steps["environments"]["rate"]["high"] <= 1
    assert round(steps["validated"]["paper"], 3) == 0.816
    losses = sum(sum(steps[name]["losses"].values()) for name in ("first_build_ok", "environments", "validated"))
    assert losses == 2 - steps["validated_of_all"]["rate"]["count"]
    assert calls > 0
    again, more = world.experiment(*arguments)
    assert (more, again) == (0, found)
