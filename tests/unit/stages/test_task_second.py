"""The second solution: what its solver sees, and whose fault a refusal is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from facet_dagster.adapters.memory import MemoryArtifactStore, ScriptedLLM
from facet_dagster.adapters.memory_sandbox import ended
from facet_dagster.domain.archive import pack
from facet_dagster.domain.environment import E0
from facet_dagster.domain.facts import ArtifactFact, AttemptFact
from facet_dagster.domain.outcome import Component, Reason
from facet_dagster.domain.second import SecondReply, TriageReply
from facet_dagster.domain.semantic import MutantsReply
from facet_dagster.domain.task import Task
from facet_dagster.errors import MalformedReply
from facet_dagster.ports import RunOutcome
from facet_dagster.prompts import render
from facet_dagster.stages.task.examine import Examined, examine
from facet_dagster.stages.task.images import Images
from facet_dagster.stages.task.package import TaskLimits
from facet_dagster.stages.task.reexamine import examine_again
from facet_dagster.stages.task.second import Second, second
from facet_dagster.stages.task.sources import used_sources, wrong_outputs
from facet_dagster.stages.task.trial import Trials
from tests.fixtures import task_example as example
from tests.fixtures.examination import AWK, MUTANTS, QUOTE, WRONG_ORDER, triage
from tests.fixtures.examination import second as reply
from tests.fixtures.task_bench import GOOD, bench

TASK = Task(seed=example.SEED.key, title="t", draft=example.draft(), environment=example.environment(), validations=())
OUTPUTS = example.INSTRUCTION.outputs
ONE = {**GOOD, "C11": "fail"}
CASCADE = {**GOOD, "C1": "fail", **dict.fromkeys(("C3", "C4", "C5", "C6"), "blocked")}
MOST = {**GOOD, **dict.fromkeys([f"C{n}" for n in range(1, 9)], "fail")}


def both_outputs(solve: str) -> RunOutcome:
    return ended(output="done", collected={"/app": app(solve, "out/totals.json", "out/rejects.csv")})


def app(solve: str, *outputs: str) -> bytes:
    return pack({"app/done": solve.encode(), **{f"app/{path}": b"x" for path in outputs}}, folders=("app",))


def verdicts(wrong: Mapping[str, str]) -> Any:
    """Refuses the script with the wrong order, accepts every other."""
    return lambda solve: wrong if solve == WRONG_ORDER else GOOD


def trials(judge: Any, work: Any = both_outputs) -> Trials:
    image = "python:3.11-slim-bookworm"
    return Trials(Images(image, image), bench(judge, work), TaskLimits.of(7), TASK.seed)


def asked(judge: Any, *triages: Any, solutions: Any = None, work: Any = both_outputs) -> tuple[Second, ScriptedLLM]:
    written = solutions or [reply(WRONG_ORDER), reply()]
    llm = ScriptedLLM({"second_solution": written, "triage_refusal": list(triages)})
    store = MemoryArtifactStore()
    found = second(TASK, llm=llm, trials=trials(judge, work), store=store)
    assert all(store.has(fact.artifact or "") for fact in found.facts if isinstance(fact, AttemptFact))
    return found, llm


def calls(llm: ScriptedLLM) -> list[tuple[str, int]]:
    return [(call, attempt) for call, _, attempt in llm.asked]


def test_an_accepted_solution_is_one_probe() -> None:
    found, llm = asked(lambda _: GOOD)
    assert [(p.id, p.kind, p.wanted, p.reward, p.ok) for p in found.probes] == [("S1", "second", 1, 1, True)]
    assert found.probes[0].what == "shell: one pass of awk"
    assert (found.rejection, found.open, len(found.replies)) == (None, "", 1)
    assert calls(llm) == [("second_solution", 0)]


def test_a_kept_solution_that_is_accepted_is_not_asked_for_again() -> None:
    written = SecondReply.model_validate(reply())
    llm = ScriptedLLM({"second_solution": [reply()]})
    found = second(TASK, llm=llm, trials=trials(lambda _: GOOD), store=None, kept=written)
    assert ([p.id for p in found.probes], found.replies, llm.asked) == (["S1"], [written], [])


def test_a_kept_solution_that_is_refused_now_counts_for_nothing() -> None:
    llm = ScriptedLLM({"second_solution": [reply()]})
    written = SecondReply.model_validate(reply(WRONG_ORDER))
    found = second(TASK, llm=llm, trials=trials(verdicts(ONE)), store=None, kept=written)
    assert [(p.id, p.reward) for p in found.probes] == [("S1", 1)]
    assert calls(llm) == [("second_solution", 0)]


def test_the_solver_sees_what_an_agent_sees_and_nothing_else() -> None:
    e0 = TASK.environment.e0
    assert e0 is not None
    marked = tuple(file.model_copy(update={"rows": {"D1": "the row"}}) for file in e0.files)
    known: E0 = e0.model_copy(update={"files": marked})
    task = TASK.model_copy(update={"environment": TASK.environment.model_copy(update={"e0": known})})
    llm = ScriptedLLM({"second_solution": [reply()]})
    second(task, llm=llm, trials=trials(lambda _: GOOD), store=None)
    text = render("second_solution", llm.variables[0], SecondReply).user
    assert "A row without an amount" in text
    assert "5,mars,9.00" in text
    assert "language: work with bash, awk" in text
    for secret in ("D1", "the row", "wrong_reading", "total_is_right", "csv.DictReader", "R1"):
        assert secret not in text


@pytest.mark.parametrize(
    ("wrong", "work", "said"),
    [
        (ONE, lambda s: ended(3, "boom", collected={"/app": None}) if s == WRONG_ORDER else both_outputs(s), "failed"),
        (ONE, lambda s: ended(collected={"/app": app(s)}) if s == WRONG_ORDER else both_outputs(s), "None of the"),
        (MOST, both_outputs, "8 of 13 checks"),
        (CASCADE, both_outputs, "waits for C1"),
    ],
)
def test_by_rule_the_solvers_fault_is_asked_for_once_more(wrong: Any, work: Any, said: str) -> None:
    found, llm = asked(verdicts(wrong), work=work)
    assert calls(llm) == [("second_solution", 0), ("second_solution", 1)]
    assert [(p.id, p.crashed, p.ok) for p in found.probes] == [("S1", True, True), ("S2", False, True)]
    assert said in found.probes[0].what
    assert (found.rejection, found.open) == (None, "")


def test_the_second_try_is_told_what_it_could_have_seen_and_nothing_that_is_expected() -> None:
    _, llm = asked(verdicts(CASCADE), solutions=[reply(WRONG_ORDER), reply()])
    again = llm.variables[1]["again"]
    assert again["program"] == {"end": "exited", "exit_code": 0, "log_tail": "done"}
    assert (again["missing"], again["wrong"]) == ([], ["/app/out/totals.json"])
    text = render("second_solution", llm.variables[1], SecondReply).user
    assert "Outputs that were not accepted" in text
    assert "total_is_right" not in text
    assert "C1" not in text


def test_a_few_refusing_checks_are_triaged_and_a_quote_that_is_written_blames_the_solver() -> None:
    found, llm = asked(verdicts(ONE), triage("solver", QUOTE))
    assert calls(llm) == [("second_solution", 0), ("triage_refusal", 0), ("second_solution", 1)]
    assert found.rejection is None
    assert QUOTE in found.probes[0].what
    shown = llm.variables[1]
    assert [check["id"] for check in shown["checks"]] == ["C11"]
    assert "def reason_is_right" in shown["helpers"]
    assert "def total_is_right" not in shown["helpers"]
    assert "Who is at fault" in render("triage_refusal", shown, TriageReply).user


@pytest.mark.parametrize(
    ("said", "blamed"),
    [
        (triage("solver", "Rows are refused in the order of the file."), Component.VERIFIER),
        (triage("solver", "the"), Component.VERIFIER),
        (triage("solver"), Component.VERIFIER),
        (triage("verifier"), Component.VERIFIER),
        (triage("instruction", QUOTE), Component.INSTRUCTION),
    ],
)
def test_a_demand_that_is_written_nowhere_is_the_tasks_fault(said: Any, blamed: Component) -> None:
    found, llm = asked(verdicts(ONE), said)
    assert len(llm.asked) == 2
    assert found.rejection is not None
    assert (found.rejection.reason, found.rejection.component) == (Reason.TASK_OVER_STRICT, blamed)
    assert [check["id"] for check in found.rejection.evidence["checks"]] == ["C11"]
    assert not found.probes[0].ok


def test_a_solver_that_stumbles_twice_in_the_same_way_is_heard() -> None:
    found, llm = asked(verdicts(MOST), triage("verifier"), solutions=[reply(WRONG_ORDER)] * 2)
    assert calls(llm) == [("second_solution", 0), ("second_solution", 1), ("triage_refusal", 1)]
    assert found.rejection is not None
    assert found.rejection.reason is Reason.TASK_OVER_STRICT


def test_a_solver_that_fails_twice_proves_nothing() -> None:
    found, _ = asked(lambda _: GOOD, work=lambda _: ended(3, "boom", collected={"/app": None}))
    assert found.rejection is None
    assert [p.ok for p in found.probes] == [True, True]
    assert found.open == (
        "No second solution was accepted. The last one was at fault itself: The program failed (exited, exit code 3)."
    )


def test_a_verifier_that_breaks_on_other_work_is_blamed() -> None:
    found, llm = asked(lambda _: ended(1, "killed"))
    assert found.rejection is not None
    assert found.rejection.reason is Reason.TASK_VERIFIER_BROKEN
    assert len(llm.asked) == 1


def test_an_unreadable_second_answer_leaves_the_question_open() -> None:
    found, _ = asked(verdicts(MOST), solutions=[reply(WRONG_ORDER), {"solve_sh": ""}])
    assert found.rejection is None
    assert found.open
    with pytest.raises(MalformedReply):
        asked(verdicts(MOST), solutions=[{}])


def test_sources_of_helpers_and_the_outputs_that_they_read() -> None:
    assert list(used_sources(["C4"], example.VERIFIER)) == [
        "text_of",
        "rows_of",
        "totals",
        "expected",
        "total_is_right",
    ]
    assert wrong_outputs(["C4"], OUTPUTS, example.VERIFIER) == ("/app/out/totals.json",)
    assert wrong_outputs(["C11", "C4"], OUTPUTS, example.VERIFIER) == tuple(OUTPUTS)
    assert wrong_outputs(["C13"], OUTPUTS, example.VERIFIER) == tuple(OUTPUTS)


def examined(judge: Any, store: MemoryArtifactStore) -> Examined:
    llm = ScriptedLLM(
        {
            "semantic_mutants": [{"mutants": MUTANTS}],
            "second_solution": [reply()],
            "triage_refusal": [triage("verifier")],
        }
    )
    return examine(TASK, example.SCENARIO, llm=llm, trials=trials(judge), store=store)


def only_awk_and_the_solution(solve: str) -> Mapping[str, str]:
    return GOOD if solve in (AWK, example.SOLVE) else ONE


def test_all_is_examined_kept_and_tried_again_without_a_model() -> None:
    store = MemoryArtifactStore()
    result = examined(only_awk_and_the_solution, store)
    assert (len(result.probes), result.rejection, result.findings, result.open) == (10, None, (), ())
    kept = {fact.kind: store.get(fact.sha256) for fact in result.facts if isinstance(fact, ArtifactFact)}
    assert result.replies.mutants == MutantsReply.model_validate_json(kept["semantic_mutants"])
    assert result.replies.second == {"S1": SecondReply.model_validate_json(kept["second_solution"])}
    again = examine_again(TASK, example.SCENARIO, result.replies, trials=trials(only_awk_and_the_solution))
    assert (again.probes, again.rejection) == (result.probes, None)


@pytest.mark.parametrize(
    ("judge", "reason"),
    [(lambda solve: ONE, Reason.TASK_OVER_STRICT), (lambda solve: GOOD, Reason.TASK_MUTANT_SURVIVED)],
    ids=["what was right is refused now", "what was wrong is accepted now"],
)
def test_another_verdict_on_what_was_kept_is_a_rejection(judge: Any, reason: Reason) -> None:
    replies = examined(only_awk_and_the_solution, MemoryArtifactStore()).replies
    again = examine_again(TASK, example.SCENARIO, replies, trials=trials(judge))
    assert again.rejection is not None
    assert again.rejection.reason is reason


def test_over_strictness_comes_before_survivors_and_all_findings_are_told() -> None:
    result = examined(lambda solve: ONE if solve == AWK else GOOD, MemoryArtifactStore())
    assert result.rejection is not None
    assert result.rejection.reason is Reason.TASK_OVER_STRICT
    assert [finding.probe for finding in result.findings] == [*(f"M{n}" for n in range(1, 10)), "S1"]
    json.dumps([finding.model_dump(mode="json") for finding in result.findings])


def test_survivors_alone_are_a_rejection() -> None:
    result = examined(lambda _: GOOD, MemoryArtifactStore())
    assert result.rejection is not None
    assert result.rejection.reason is Reason.TASK_MUTANT_SURVIVED


def test_a_discriminator_of_which_every_mutant_crashes_is_told() -> None:
    def work(solve: str) -> RunOutcome:
        return both_outputs(solve) if '"unknown"' in solve else ended(1, "x", collected={"/app": None})

    store = MemoryArtifactStore()
    llm = ScriptedLLM({"semantic_mutants": [{"mutants": MUTANTS}], "second_solution": [reply(AWK + '# "unknown"\n')]})
    bench_of = trials(lambda s: GOOD if "awk" in s else ONE, work)
    result = examine(TASK, example.SCENARIO, llm=llm, trials=bench_of, store=store)
    assert result.open == ("No mutant of discriminator D3 could be tried.",)
    assert result.rejection is None
