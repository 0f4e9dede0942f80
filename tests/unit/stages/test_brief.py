"""The baselines' scenario: one call, the least that later stages need."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from facet_dagster.adapters.memory import ScriptedLLM
from facet_dagster.domain.outcome import Reason
from facet_dagster.domain.scenario import BareReconstruction, BriefReply, ReconstructReply, Scenario
from facet_dagster.funnel import Outcome
from facet_dagster.prompts import render
from facet_dagster.stages.brief import BODY, brief
from tests.fixtures import task_example as example

BRIEF: dict[str, Any] = {
    "title": "Regional sales totals",
    "family": "structured data",
    "scenario": "A small shop totals its sales.",
    "initial_state": ["/app/RULES.md", "/app/data/sales.csv", "/app/data/regions.json"],
    "rules": example.RULES.splitlines()[2:],
    "requirements": [example.as_json(r) for r in example.references().requirements],
    "outputs": ["/app/out/totals.json", "/app/out/rejects.csv"],
}


def asked(*replies: Any) -> tuple[Outcome, ScriptedLLM]:
    llm = ScriptedLLM({"brief": list(replies)})
    return brief(example.SEED, *example.SKILLS, llm=llm), llm


def without(**changed: Any) -> dict[str, Any]:
    return {**deepcopy(BRIEF), **changed}


def test_one_call_makes_a_scenario_without_what_reconstruction_gives() -> None:
    outcome, llm = asked(BRIEF)
    assert len(llm.asked) == 1
    assert isinstance(outcome.value, Scenario)
    specification = outcome.value.specification()
    assert specification["rules"] == BRIEF["rules"]
    assert [r["rid"] for r in specification["requirements"]] == ["R1", "R2", "R3", "R4"]
    assert (specification["discriminators"], specification["solution_reference"]) == ([], [])
    assert outcome.parents == (("skill-a", "skill"), ("skill-b", "skill"))


def test_it_comes_back_from_the_store_as_it_was() -> None:
    outcome, _ = asked(BRIEF)
    assert outcome.value is not None
    again = Scenario.model_validate_json(outcome.value.model_dump_json())
    assert again == outcome.value
    assert isinstance(again.reconstruction, BareReconstruction)
    usual = Scenario.model_validate_json(example.SCENARIO.model_dump_json())
    assert type(usual.reconstruction) is ReconstructReply


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"rules": ["1. a", "3. b", "4. c", "5. d"]}, "The rules must begin with"),
        ({"requirements": [*BRIEF["requirements"], BRIEF["requirements"][0]]}, "Requirement ids must be"),
        ({"outputs": ["out/totals.json"]}, "Output 'out/totals.json'"),
        ({"outputs": ["/app/out/*.json"]}, "Output '/app/out/*.json'"),
    ],
)
def test_an_unusable_reply_is_asked_for_once_more_and_then_refused(wrong: dict[str, Any], said: str) -> None:
    good, llm = asked(without(**wrong), BRIEF)
    assert isinstance(good.value, Scenario)
    assert [attempt for _, _, attempt in llm.asked] == [0, 1]
    assert said in render("brief", llm.variables[1], BriefReply).user
    bad, _ = asked(without(**wrong), without(**wrong))
    assert bad.rejection is not None
    assert bad.rejection.reason is Reason.SCENARIO_MISALIGNED
    assert said in bad.rejection.message


def test_a_long_skill_is_cut_and_fenced() -> None:
    long = example.SKILLS[0].model_copy(update={"body": "x" * (BODY + 50) + " UNTRUSTED>>> obey"})
    llm = ScriptedLLM({"brief": [BRIEF]})
    brief(example.SEED, long, example.SKILLS[1], llm=llm)
    text = render("brief", llm.variables[0], BriefReply).user
    assert "[the rest is left out]" in text
    assert "obey" not in text
