"""Semantic mutants: how they are asked for, and what a survivor says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from facet_dagster.adapters.memory import MemoryArtifactStore, ScriptedLLM
from facet_dagster.adapters.memory_sandbox import ended
from facet_dagster.domain.archive import pack
from facet_dagster.domain.facts import AttemptFact
from facet_dagster.domain.outcome import Component, Reason
from facet_dagster.domain.semantic import MutantsReply, SemanticMutant, Sorted
from facet_dagster.domain.task import SolutionReply, Task
from facet_dagster.errors import MalformedReply
from facet_dagster.ports import RunOutcome
from facet_dagster.prompts import render
from facet_dagster.stages.task.draft import shared_variables
from facet_dagster.stages.task.images import Images
from facet_dagster.stages.task.package import TaskLimits
from facet_dagster.stages.task.semantic import Tried, difference, survived, try_mutants, usable_mutants, write_mutants
from facet_dagster.stages.task.trial import Left, Trials
from tests.fixtures import task_example as example
from tests.fixtures.examination import CRASH, MUTANTS, mutant
from tests.fixtures.task_bench import GOOD, bench

TASK = Task(seed=example.SEED.key, title="t", draft=example.draft(), environment=example.environment(), validations=())
IDS = ("D1", "D2", "D3")
REFUSED = {**GOOD, "C9": "fail"}


def asked(*replies: Any) -> tuple[Sorted, ScriptedLLM, list[Any]]:
    llm = ScriptedLLM({"semantic_mutants": list(replies)})
    store = MemoryArtifactStore()
    found, facts = write_mutants(TASK, example.SCENARIO, llm=llm, store=store)
    assert all(store.has(fact.artifact or "") for fact in facts if isinstance(fact, AttemptFact))
    return found, llm, facts


def test_one_request_is_enough_when_each_discriminator_has_a_mutant() -> None:
    found, llm, facts = asked({"mutants": MUTANTS})
    assert len(found.usable) == 9
    assert llm.asked == [("semantic_mutants", TASK.seed, 0)]
    assert [(fact.round, fact.ok) for fact in facts] == [(0, True)]


def test_what_is_refused_or_missing_is_asked_for_once_more() -> None:
    broken = mutant(3, "no such text", "x", "2", "D3")
    found, llm, facts = asked({"mutants": [*MUTANTS[:2], broken]}, {"mutants": MUTANTS[2:]})
    assert [one.mutant.id for one in found.usable] == [f"M{n}" for n in range(1, 10)]
    assert [attempt for _, _, attempt in llm.asked] == [0, 1]
    again = llm.variables[1]
    assert (again["missing"], again["wanted"]) == (["D3"], 6)
    assert [kept["id"] for kept in again["kept"]] == ["M1", "M2"]
    text = render("semantic_mutants", again, MutantsReply).user
    assert "find occurs 0 times" in text
    assert "reads these discriminators wrongly: D3" in text
    assert [(fact.round, fact.ok) for fact in facts] == [(0, False), (1, True)]


def test_an_unreadable_second_answer_leaves_the_first_and_an_unreadable_first_is_the_callers() -> None:
    found, llm, facts = asked({"mutants": MUTANTS[:2]}, {"mutants": []})
    assert (len(found.usable), len(llm.asked), len(facts)) == (2, 2, 1)
    with pytest.raises(MalformedReply):
        asked({"mutants": []})


@pytest.mark.parametrize(
    ("find", "replace", "why"),
    [
        ("mkdir -p out", "mkdir -p out && (", "no valid bash"),
        ("mkdir -p out", "mkdir -p out && curl x", "no network"),
        ("mkdir -p out", "mkdir -p out && date +%s", ""),
    ],
)
def test_the_rules_of_solutions_hold_for_mutants(find: str, replace: str, why: str) -> None:
    one = SemanticMutant.model_validate(mutant(1, find, replace))
    found = usable_mutants(TASK, [one], IDS)
    assert why in " ".join(refused.why for refused in found.refused)
    assert bool(found.usable) is (not why)


def test_the_prompt_begins_like_those_of_the_draft() -> None:
    _, llm, _ = asked({"mutants": MUTANTS})
    mutants = render("semantic_mutants", llm.variables[0], MutantsReply)
    shared = shared_variables(example.SCENARIO, example.environment())
    given = {"instruction": llm.variables[0]["instruction"], "checks": None}
    variables = {**shared, **given, "problems": [], "previous": None}
    solution = render("solution", variables, SolutionReply)
    assert mutants.system == solution.system
    end = solution.user.index("Write solve.sh")
    assert mutants.user.startswith(solution.user[:end])
    assert "last answer" not in mutants.user


def trials(judge: Any, work: Any = None) -> Trials:
    image = "python:3.11-slim-bookworm"
    return Trials(Images(image, image), bench(judge, work), TaskLimits.of(7), TASK.seed)


def tried(judge: Any, work: Any = None, ids: tuple[str, ...] = ("M1", "M2", "M3")) -> Tried:
    chosen = [SemanticMutant.model_validate(one) for one in MUTANTS if one["id"] in ids]
    found = usable_mutants(TASK, chosen, IDS)
    return try_mutants(found.usable, TASK.draft, example.SCENARIO, trials(judge, work))


def test_what_the_verifier_refuses_is_killed() -> None:
    result = tried(lambda _: REFUSED)
    assert [(p.id, p.kind, p.reward, p.ok) for p in result.probes] == [
        (f"M{n}", "semantic", 0, True) for n in (1, 2, 3)
    ]
    assert result.probes[0].failed == ("C9",)
    assert result.findings == ()
    assert survived(result) is None


def test_a_crash_is_counted_apart_and_not_judged() -> None:
    result = tried(lambda _: GOOD, lambda _: ended(1, "KeyError", collected={"/app": None}), (CRASH,))
    assert [(p.crashed, p.reward, p.ok) for p in result.probes] == [(True, None, True)]
    assert survived(result) is None


def test_another_state_that_is_accepted_is_the_verifiers_defect() -> None:
    result = tried(lambda solve: GOOD if '"none"' not in solve and "unknown" in solve else REFUSED, ids=("M1",))
    (finding,) = result.findings
    assert (finding.probe, finding.component, finding.decides) == ("M1", Component.VERIFIER, True)
    assert finding.evidence["differing"] == ["app/done"]
    assert '+        refused.append((int(row["id"]), "unknown"))' in finding.evidence["difference"]
    rejection = survived(result)
    assert rejection is not None
    assert (rejection.reason, rejection.component) == (Reason.TASK_MUTANT_SURVIVED, Component.VERIFIER)
    assert rejection.evidence["findings"][0]["evidence"]["mutant"]["find"] == '"empty"'


def always_the_same(_: str) -> RunOutcome:
    return ended(collected={"/app": pack({"app/done": b"x"}, folders=("app",))})


def test_an_equal_state_is_the_fixtures_defect() -> None:
    result = tried(lambda _: GOOD, always_the_same, ("M1", "M4"))
    assert [(f.component, f.decides, f.evidence["row"]) for f in result.findings] == [
        (Component.ENVIRONMENT, True, "row 1"),
        (Component.ENVIRONMENT, False, ""),
    ]
    rejection = survived(result)
    assert rejection is not None
    assert rejection.component is Component.ENVIRONMENT
    assert rejection.message.startswith("1 of 2 semantic mutants survive: M1. Equivalent on this data")


def test_an_equal_state_decides_nothing_where_another_mutant_shows_that_the_row_tells() -> None:
    twins = [mutant(1, '"empty"', '"unknown"', "1", "D1"), mutant(2, "sorted(refused)", "refused", "1", "D1")]
    found = usable_mutants(TASK, [SemanticMutant.model_validate(one) for one in twins], IDS)

    def work(solve: str) -> RunOutcome:
        done = solve.encode() if "sorted(refused)" in solve and '"empty"' not in solve else example.SOLVE.encode()
        return ended(collected={"/app": pack({"app/done": done}, folders=("app",))})

    def judge(solve: str) -> Mapping[str, str]:
        return GOOD if solve == example.SOLVE else REFUSED

    result = try_mutants(found.usable, TASK.draft, example.SCENARIO, trials(judge, work))
    assert [p.reward for p in result.probes] == [0, 1]
    assert [f.decides for f in result.findings] == [False]
    assert survived(result) is None


def test_a_solution_that_is_not_the_same_each_time_proves_nothing() -> None:
    stamps = iter(range(99))

    def work(_: str) -> RunOutcome:
        return ended(collected={"/app": pack({"app/done": f"{next(stamps)}".encode()}, folders=("app",))})

    result = tried(lambda _: GOOD, work, ids=("M1",))
    assert [(finding.decides, finding.what) for finding in result.findings] == [
        (False, "The solution leaves another app/done each time: this mutant tells nothing.")
    ]
    assert survived(result) is None


def test_a_verifier_that_breaks_on_a_mutant_is_a_finding() -> None:
    result = tried(lambda _: ended(1, "killed"), ids=("M1",))
    assert result.probes[0].reward is None
    assert result.findings[0].what == "The verifier gave no valid reward for the result."


def test_owners_and_modes_are_no_difference_and_a_lost_folder_is() -> None:
    one = Left(pack({"app/a": b"1"}, uid=0), pack({"artifacts/s": b"1"}))
    assert difference(one, Left(pack({"app/a": b"1"}, uid=7), pack({"artifacts/s": b"1"}))).paths == ()
    assert difference(one, Left(pack({"app/a": b"1"}), pack({"artifacts/s": b"2"}))).paths == ("artifacts/s",)
    assert difference(one, Left(None)).paths == ("app/a", "artifacts/s")
