from __future__ import annotations

from typing import Any

import pytest

from facet_dagster.adapters.memory import MemoryArtifactStore, ScriptedLLM
from facet_dagster.adapters.memory_sandbox import MemorySandbox, ended
from facet_dagster.domain.environment import BuildAttempt, Environment, EnvironmentRepairReply, FileEdit
from facet_dagster.domain.facts import AttemptFact
from facet_dagster.domain.outcome import Component, Reason, Rejection
from facet_dagster.domain.task import Check, Draft, Section, Task, TaskEdit, TaskRepairReply, VerifierReply
from facet_dagster.errors import SandboxError
from facet_dagster.funnel import Outcome
from facet_dagster.ports import Run, RunOutcome
from facet_dagster.prompts import render
from facet_dagster.stages.environment import apply_repair
from facet_dagster.stages.task.edits import apply_edits, changed_targets, file_edits, owner, weakening
from facet_dagster.stages.task.repair import finish
from facet_dagster.stages.task.validate import first_validation
from tests.fixtures import task_example as example
from tests.fixtures.task_bench import E0_STATUSES, GOOD, bench, sound

WRONG = example.SOLVE.replace('"empty"', '"none"')
MEND = {"target": "solve.sh", "find": '"none"', "replace": '"empty"'}


def reply(component: str = "solution", *edits: dict[str, str], **more: Any) -> TaskRepairReply:
    return TaskRepairReply.model_validate(
        {"component": component, "evidence": "C9 quotes rule 1", "edits": edits, **more}
    )


# --- edits: only the blamed component, one place, never weaker ---


@pytest.mark.parametrize(
    ("target", "component"),
    [
        ("instruction", Component.INSTRUCTION),
        ("section 0", Component.INSTRUCTION),
        ("solve.sh", Component.SOLUTION),
        ("helpers", Component.VERIFIER),
        ("C12", Component.VERIFIER),
        ("data/sales.csv", Component.ENVIRONMENT),
        ("generator", Component.ENVIRONMENT),
        ("task.toml", Component.ENVIRONMENT),
        ("run_checks.py", Component.ENVIRONMENT),
    ],
)
def test_every_target_has_one_owner(target: str, component: Component) -> None:
    assert owner(target) is component


NEW = {"id": "C14", "rid": "R1", "title": "new", "body": "assert totals() != {}"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (reply("solution", {"target": "C4", "find": "north", "replace": "south"}), "an edit writes 'C4' (verifier)"),
        (reply("verifier", MEND), "an edit writes 'solve.sh' (solution)"),
        (reply("instruction", {"target": "data/sales.csv", "find": "1", "replace": "2"}), "(environment)"),
        (reply("solution", MEND, put_checks=[NEW]), "put_checks writes the verifier"),
        (reply("solution", MEND, add_sections=[{"rids": [], "text": "x"}]), "add_sections writes the instruction"),
        (reply("solution", MEND, outputs=["/app/x"]), "outputs writes the instruction"),
        (reply("verifier", put_checks=[NEW], steps=["x (R1)"]), "steps writes the solution"),
        (reply("solution"), "change nothing"),
        (reply("solution", {**MEND, "replace": '"none"'}), "change nothing"),
        (reply("solution", {**MEND, "find": "absent"}), "occurs 0 times"),
        (reply("solution", {**MEND, "find": "totals"}), "times; it must occur exactly once"),
        (reply("solution", {**MEND, "find": ""}), "(empty)"),
        (reply("instruction", {"target": "section 9", "find": "x", "replace": "y"}), "no section 9"),
        (reply("verifier", {"target": "C99", "find": "x", "replace": "y"}), "no check C99"),
        (reply("verifier", {"target": "C4", "find": 'total_is_right("north")', "replace": "pass"}), "no longer fail"),
        (reply("verifier", put_checks=[{**NEW, "id": "C13"}]), "Requirement R4 would lose its last check"),
        (reply("verifier", put_checks=[{**NEW, "id": "C13", "rid": "R4", "body": "return"}]), "no longer fail"),
    ],
)
def test_refused_edits_say_why(given: TaskRepairReply, said: str) -> None:
    draft = example.draft(solution=example.solution(WRONG))
    assert said in str(apply_edits(draft, given))


def edited(given: TaskRepairReply, draft: Draft | None = None) -> Draft:
    result = apply_edits(draft or example.draft(), given)
    assert isinstance(result, Draft), result
    return result


def test_instruction_edits_reach_intro_and_sections_and_can_add_one() -> None:
    given = reply(
        "instruction",
        {"target": "instruction", "find": "A shop", "replace": "A small shop"},
        {"target": "section 1", "find": "by rules 1, 2, 4", "replace": "by rules 1, 2 and 4"},
        add_sections=[{"rids": ["R4"], "text": "More."}],
    )
    after = edited(given)
    assert after.instruction.intro.startswith("A small shop")
    assert after.instruction.sections[1].text.endswith("by rules 1, 2 and 4.")
    assert after.instruction.sections[-1] == Section(rids=["R4"], text="More.")
    assert (after.solution, after.verifier) == (example.SOLUTION, example.VERIFIER)


def test_whole_lists_of_outputs_and_steps_can_be_replaced() -> None:
    outputs, steps = [*example.INSTRUCTION.outputs, "/app/out/log.txt"], ["All of it (R1, R2, R3)"]
    after = edited(reply("instruction", outputs=outputs))
    assert (after.instruction.outputs, after.instruction.sections) == (outputs, example.INSTRUCTION.sections)
    given = reply("solution", MEND, steps=steps)
    after = edited(given, example.draft(solution=example.solution(WRONG)))
    assert (after.solution.steps, after.solution.solve_sh) == (steps, example.SOLVE)
    assert changed_targets(given) == ("solve.sh", "steps")


def test_edits_of_one_part_are_applied_in_order() -> None:
    second = {"target": "solve.sh", "find": '"empty"', "replace": '"EMPTY"'}
    after = edited(reply("solution", MEND, second), example.draft(solution=example.solution(WRONG)))
    assert '"EMPTY"' in after.solution.solve_sh


def test_checks_can_be_edited_replaced_and_added() -> None:
    given = reply(
        "verifier",
        {"target": "C4", "find": '"north"', "replace": '"south"'},
        {"target": "helpers", "find": "0.005", "replace": "0.0051"},
        put_checks=[NEW, {**NEW, "id": "C5", "title": "replaced"}],
    )
    after = edited(given).verifier
    assert [c.id for c in after.checks] == [f"C{n}" for n in range(1, 15)]
    assert (after.checks[3].body, after.checks[4].title) == ('total_is_right("south")', "replaced")
    assert "0.0051" in after.helpers


def verifier(checks: list[Check]) -> VerifierReply:
    return example.VERIFIER.model_copy(update={"checks": checks})


def test_fewer_checks_are_weaker() -> None:
    assert "from 13 to 12 checks" in weakening(example.VERIFIER, verifier(example.CHECKS[:-1]))


def test_losing_many_assertions_is_weaker() -> None:
    asserts = "\n".join(f"assert totals() != {n}" for n in range(60))
    strong = example.with_check(4, body=asserts)
    assert "would lose 60 of its" in weakening(strong, example.VERIFIER)
    assert weakening(example.VERIFIER, strong) == ""


def test_file_edits_accept_paths_with_and_without_the_work_directory() -> None:
    given = reply("environment", {"target": "/app/data/x.csv", "find": "1", "replace": "2"})
    assert file_edits(given) == (FileEdit(path="data/x.csv", find="1", replace="2"),)
    assert file_edits(reply("environment")) == "There are no edits."
    assert "solve.sh" in str(file_edits(reply("environment", MEND)))


# --- rounds ---


def honest(text: str) -> dict[str, str]:
    """Judges by what the script says: a wrong reason fails C9."""
    if not text:
        return E0_STATUSES
    return GOOD if '"none"' not in text else {**GOOD, "C9": "fail"}


def task(sandbox: MemorySandbox, **update: Any) -> Task:
    draft = example.draft(**({"solution": example.solution(WRONG)} | update))
    outcome = first_validation(draft, example.environment(), example.SCENARIO, sandbox=sandbox, trial_seconds=9)
    assert isinstance(outcome.value, Task)
    return outcome.value


def repaired(
    replies: list[Any], *, sandbox: MemorySandbox | None = None, start: Task | None = None, rounds: int = 5, **more: Any
) -> tuple[Outcome, Task, ScriptedLLM]:
    sandbox = sandbox or bench(honest)
    llm = ScriptedLLM({"repair_task": replies})
    outcome = finish(
        start or task(sandbox),
        example.environment(),
        example.SCENARIO,
        llm=llm,
        sandbox=sandbox,
        trial_seconds=9,
        rounds=rounds,
        **more,
    )
    assert isinstance(outcome.value, Task)
    return outcome, outcome.value, llm


def reason(outcome: Outcome) -> Rejection:
    assert outcome.rejection is not None
    return outcome.rejection


def test_a_valid_task_costs_no_call_and_no_trial() -> None:
    sandbox = bench(sound)
    start = task(sandbox)
    runs = len(sandbox.runs)
    outcome, value, llm = repaired([], sandbox=sandbox, start=start)
    assert (outcome.rejection, value, llm.asked, len(sandbox.runs)) == (None, start, [], runs)
    assert outcome.numbers == {"repairs": 0, "checks": 13}


def test_one_repair_makes_the_task_valid_and_everything_is_validated_again() -> None:
    sandbox = bench(honest)
    outcome, value, llm = repaired([reply("solution", MEND)], sandbox=sandbox)
    assert outcome.rejection is None
    assert outcome.numbers["repairs"] == 1
    assert (value.draft.solution, value.draft.round) == (example.SOLUTION, 1)
    assert [v.valid for v in value.validations] == [False, True]
    assert value.repairs[0].changed == ("solve.sh",)
    assert value.repairs[0].result == "valid"
    assert len(sandbox.runs) == 6, "baseline and oracle, twice; what does nothing needs no container"
    assert llm.asked == [("repair_task", example.SEED.key, 1)]


def test_the_repair_is_shown_evidence_and_the_artifacts_under_their_targets() -> None:
    _, _, llm = repaired([reply("solution", MEND)])
    shown = llm.variables[0]
    assert shown["evidence"]["reason"] == "task.oracle_failed"
    assert shown["evidence"]["checks_not_passed"][0]["id"] == "C9"
    assert shown["draft"]["solve.sh"] == WRONG
    assert shown["draft"]["sections"][0]["target"] == "section 0"
    assert shown["history"] == []


def test_refused_edits_spend_their_round_and_are_shown_to_the_next() -> None:
    sandbox = bench(honest)
    wrong_part = reply("solution", {"target": "C9", "find": "4", "replace": "5"})
    outcome, value, llm = repaired([wrong_part, {"no": "schema"}, reply("solution", MEND)], sandbox=sandbox)
    assert outcome.rejection is None
    assert [r.round for r in value.repairs] == [1, 2, 3]
    assert len(value.validations) == 2, "nothing changed in the first two rounds"
    results = [item["result"]["log_tail"] for item in llm.variables[2]["history"]]
    assert "an edit writes 'C9'" in results[0]
    assert "did not fit its schema" in results[1]
    assert value.draft.round == 3


def test_after_the_last_round_the_task_is_rejected_with_its_last_reason() -> None:
    useless = [reply("solution", {**MEND, "replace": f'"none" # {n}'} | {"find": '"none"'}) for n in range(5)]
    outcome, value, _ = repaired(useless, rounds=2)
    rejection = reason(outcome)
    assert rejection.reason is Reason.TASK_REPAIR_EXHAUSTED
    assert rejection.evidence["last_reason"] == "task.oracle_failed"
    assert len(value.repairs) == 2
    assert [v.round for v in value.validations] == [0, 1, 2]


def test_no_rounds_means_no_call() -> None:
    outcome, _, llm = repaired([], rounds=0)
    assert reason(outcome).reason is Reason.TASK_REPAIR_EXHAUSTED
    assert llm.asked == []


def test_infeasible_ends_at_once() -> None:
    outcome, value, llm = repaired([reply("environment", infeasible=True)])
    assert (reason(outcome).reason, reason(outcome).component) == (Reason.TASK_INFEASIBLE, Component.ENVIRONMENT)
    assert len(llm.asked) == 1
    assert value.repairs[0].result == "infeasible"


def test_an_edit_that_breaks_a_new_rule_is_refused_before_any_trial() -> None:
    sandbox = bench(honest)
    start = task(sandbox)
    runs = len(sandbox.runs)
    edit = {"target": "solve.sh", "find": "cd /app", "replace": "cd /app; curl x"}
    _, value, _ = repaired([reply("solution", MEND, edit)], sandbox=sandbox, start=start, rounds=1)
    assert value.repairs[0].result.startswith("The edit breaks a rule: solve.sh")
    assert value.draft.solution == example.solution(WRONG)
    assert len(sandbox.runs) == runs


IDLE = reply("solution", {**MEND, "replace": '"none"'})


def test_edits_that_change_nothing_have_one_more_try_in_their_round() -> None:
    outcome, value, llm = repaired([IDLE, reply("solution", MEND)], rounds=1)
    assert outcome.rejection is None
    assert [r.result for r in value.repairs] == ["valid"]
    assert [attempt for _, _, attempt in llm.asked] == [1, 1]
    shown = llm.variables[1]["history"][-1]
    assert (shown["round"], shown["changed"]) == (1, ["solve.sh"])
    assert shown["result"]["log_tail"] == "The edits change nothing. This answer is not counted."
    keys = {render("repair_task", asked, TaskRepairReply).variables for asked in llm.variables}
    assert len(keys) == 2, "otherwise the cache gives the same answer again"


@pytest.mark.parametrize("idle", [IDLE, reply("environment"), reply("environment", {**MEND, "target": "RULES.md"})])
def test_a_round_is_spent_when_nothing_changes_again(idle: TaskRepairReply) -> None:
    same = idle.model_copy(update={"edits": [e.model_copy(update={"replace": e.find}) for e in idle.edits]})
    sandbox = bench(honest)
    start = task(sandbox)
    runs = len(sandbox.runs)
    outcome, value, llm = repaired([same] * 4, sandbox=sandbox, start=start, rounds=2, rebuild=lambda e, _: e)
    assert reason(outcome).reason is Reason.TASK_REPAIR_EXHAUSTED
    assert (len(llm.asked), len(value.repairs), len(sandbox.runs)) == (4, 2, runs)


def test_an_unjustified_value_is_refused_and_the_sentence_says_what_is_missing() -> None:
    edit = {"target": "C5", "find": '"south"', "replace": '"north"'}
    quote = {"rule": "Totals are rounded to two decimals.", "row": "2,south,3.25"}
    _, value, _ = repaired([reply("verifier", edit), reply("verifier", edit, quotes=[quote])], rounds=2)
    assert value.repairs[0].result.startswith(
        "The edit changes an expected value (C5: 'south' to 'north'), so quotes must"
    )
    assert value.draft.verifier.checks[4].body == 'total_is_right("north")'


@pytest.mark.parametrize("target", ["task.toml", "tests/test.sh", "run_checks.py", "tests/Dockerfile"])
def test_a_repair_reaches_neither_time_limits_nor_the_runner(target: str) -> None:
    """Such a name is a file below /app for the environment, which has none, and nothing for any other component."""
    edit = {"target": target, "find": "600", "replace": "6000"}
    for component in ("instruction", "solution", "verifier"):
        assert "(environment)" in str(apply_edits(example.draft(), reply(component, edit)))
    edits = file_edits(reply("environment", edit))
    assert not isinstance(edits, str)
    given = EnvironmentRepairReply(diagnosis="d", edits=list(edits))
    assert apply_repair(example.RECIPE, given) == (
        example.RECIPE,
        [f"Edit of {target}: there is no such file; a new file needs an empty 'find'."],
    )


def test_a_broken_rule_can_be_repaired() -> None:
    sandbox = bench(sound)
    without = example.VERIFIER.model_copy(update={"checks": example.CHECKS[:12]})
    start = task(sandbox, verifier=without, solution=example.SOLUTION)
    outcome, value, llm = repaired([reply("verifier", put_checks=[example.CHECKS[12]])], sandbox=sandbox, start=start)
    assert llm.variables[0]["evidence"]["rule_problems"] == [{"log_tail": "verifier: Requirement R4 has no check."}]
    assert outcome.rejection is None
    assert value.draft.verifier == example.VERIFIER


def test_a_repair_of_the_environment_rebuilds_it_and_moves_the_draft_to_it() -> None:
    asked: list[tuple[FileEdit, ...]] = []

    def rebuild(environment: Environment, edits: tuple[FileEdit, ...]) -> Environment:
        asked.append(edits)
        recipe = environment.recipe.model_copy(update={"generator": "# new"})
        attempt = BuildAttempt(round=1, recipe="r2", image="example/environment:2")
        return environment.model_copy(update={"recipe": recipe, "attempts": (*environment.attempts, attempt)})

    sandbox = bench(lambda text: GOOD if text and len(asked) else E0_STATUSES)
    edit = {"target": "data/sales.csv", "find": "9.00", "replace": "8.00"}
    outcome, value, _ = repaired([reply("environment", edit)], sandbox=sandbox, rebuild=rebuild)
    assert outcome.rejection is None
    assert asked == [(FileEdit(path="data/sales.csv", find="9.00", replace="8.00"),)]
    assert (value.draft.image, value.environment.image) == ("example/environment:2", "example/environment:2")


@pytest.mark.parametrize(
    ("attempt", "said"),
    [
        (BuildAttempt(round=1, recipe="r", log_tail="E: no package"), "E: no package"),
        (BuildAttempt(round=1, recipe="r", image="i", problems=("row D2 is gone",)), "row D2 is gone"),
        (BuildAttempt(round=1, recipe="r", image="i"), "change nothing"),
    ],
)
def test_an_environment_that_cannot_be_rebuilt_keeps_the_old_one(attempt: BuildAttempt, said: str) -> None:
    def rebuild(environment: Environment, edits: tuple[FileEdit, ...]) -> Environment:
        return environment.model_copy(update={"attempts": (*environment.attempts, attempt)})

    edit = {"target": "generator", "find": "1", "replace": "2"}
    _, value, _ = repaired([reply("environment", edit)] * 2, rounds=1, rebuild=rebuild)
    assert said in value.repairs[0].result
    assert value.environment.image == example.IMAGE


def test_without_a_rebuild_the_environment_cannot_be_repaired() -> None:
    edit = {"target": "generator", "find": "1", "replace": "2"}
    _, value, _ = repaired([reply("environment", edit)], rounds=1)
    assert value.repairs[0].result == "The environment cannot be edited in this run."


def test_trouble_of_the_engine_is_raised_and_spends_no_round() -> None:
    sandbox = bench(honest)
    start = task(sandbox)

    def down(run: Run) -> RunOutcome:
        raise SandboxError("engine gone", transient=True)

    with pytest.raises(SandboxError):
        repaired([reply("solution", MEND)], sandbox=MemorySandbox(down), start=start)


def test_rounds_are_facts_and_replies_are_kept() -> None:
    store = MemoryArtifactStore()
    outcome, _, _ = repaired([reply("solution", MEND)], store=store)
    (fact,) = [f for f in outcome.facts if isinstance(f, AttemptFact)]
    assert (fact.kind, fact.round, fact.ok, fact.component) == ("repair", 1, True, "solution")
    assert TaskRepairReply.model_validate_json(store.get(fact.artifact or "")).edits == [TaskEdit(**MEND)]


def test_output_that_differs_between_machines_is_not_part_of_the_tapes_key() -> None:
    def crashing(text: str) -> MemorySandbox:
        return bench(lambda _: E0_STATUSES, lambda _: ended(3, text, collected={"/app": None}))

    keys = set()
    for text in ("boom at 10:00", "boom at 11:00"):
        sandbox = crashing(text)
        _, _, llm = repaired([reply("solution", MEND)], sandbox=sandbox, rounds=1)
        keys.add(render("repair_task", llm.variables[0], TaskRepairReply).variables)
        assert text in str(llm.variables[0])
    assert len(keys) == 1
