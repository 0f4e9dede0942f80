"""The orders in which a draft's parts are written, and the recording: who sees what of whom."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from facet_dagster.adapters.memory import ScriptedLLM
from facet_dagster.adapters.memory_sandbox import MemorySandbox, ended
from facet_dagster.domain.archive import pack
from facet_dagster.domain.facts import AttemptFact
from facet_dagster.domain.outcome import Component, Reason
from facet_dagster.domain.task import Draft, InstructionReply, JointReply, SolutionReply, VerifierReply
from facet_dagster.errors import InvariantError, MalformedReply
from facet_dagster.funnel import Outcome
from facet_dagster.ports import Run, RunOutcome
from facet_dagster.prompts import guide, render
from facet_dagster.stages.task.draft import draft, shared_variables
from facet_dagster.stages.task.orders import ORDERS, Strategy, forward
from facet_dagster.stages.task.recording import Recording
from tests.fixtures import task_example as example

SCHEMAS: dict[str, Any] = {
    "instruction": InstructionReply,
    "solution": SolutionReply,
    "verifier": VerifierReply,
    "joint": JointReply,
    "session": SolutionReply,
    "session_instruction": InstructionReply,
    "session_verifier": VerifierReply,
}
JOINT = JointReply(instruction=example.INSTRUCTION, solution=example.SOLUTION, verifier=example.VERIFIER)
SCRIPT = "set -euo pipefail"
BODY = "total_is_right"
OUTPUTS = {"out/totals.json": b'{"north": 11.75}', "out/rejects.csv": b"id,reason\n4,empty\n"}


def written(write: Strategy, **replies: list[Any]) -> tuple[Outcome, ScriptedLLM]:
    script: dict[str, list[Any]] = {
        "instruction": [example.INSTRUCTION],
        "solution": [example.SOLUTION],
        "verifier": [example.VERIFIER],
        "joint": [JOINT],
        "session": [example.SOLUTION],
        "session_instruction": [example.INSTRUCTION],
        "session_verifier": [example.VERIFIER],
    }
    llm = ScriptedLLM({**script, **replies})
    return draft(example.SEED, example.SCENARIO, example.environment(), llm=llm, write=write), llm


def asked(llm: ScriptedLLM) -> list[str]:
    return [call for call, _, _ in llm.asked]


def sent(llm: ScriptedLLM, number: int) -> str:
    call, variables = llm.asked[number][0], llm.variables[number]
    return render(call, variables, SCHEMAS[call]).user


@pytest.mark.parametrize(
    ("order", "calls"),
    [
        ("forward", ["instruction", "solution", "verifier"]),
        ("reverse", ["instruction", "verifier", "solution"]),
        ("joint", ["joint"]),
    ],
)
def test_an_order_asks_in_its_order_and_gives_the_same_draft(order: Any, calls: list[str]) -> None:
    outcome, llm = written(ORDERS[order])
    assert asked(llm) == calls
    assert [f.kind for f in outcome.facts if isinstance(f, AttemptFact)] == calls
    assert outcome.value == written(forward)[0].value
    assert outcome.numbers == {"checks": 13, "regenerated": 0, "problems": 0}


def test_forward_shows_the_verifier_steps_and_the_solution_no_checks() -> None:
    _, llm = written(forward)
    assert "What the verifier checks" not in sent(llm, 1)
    assert "Totals by region (R1)" in sent(llm, 2)
    assert "take solve.sh's steps" in sent(llm, 2)
    assert SCRIPT not in sent(llm, 2).partition("Write the verifier")[0]


def test_reverse_shows_the_verifier_no_solution() -> None:
    _, llm = written(ORDERS["reverse"])
    text = sent(llm, 1)
    assert "Totals by region (R1)" not in text
    assert "reference solution does" not in text
    assert "No solution is written yet." in text


def test_reverse_shows_the_solution_the_titles_of_checks_and_no_code_of_them() -> None:
    _, llm = written(ORDERS["reverse"])
    assert llm.variables[2]["checks"][8] == {"id": "C9", "requirement": "R3", "title": "a row without amount"}
    text = sent(llm, 2)
    assert "a row without amount" in text
    assert BODY not in text
    assert "def expected" not in text


def test_both_orders_ask_for_the_instruction_with_one_and_the_same_prompt() -> None:
    keys = [
        render("instruction", written(ORDERS[order])[1].variables[0], InstructionReply).tape_key(0)
        for order in ("forward", "reverse")
    ]
    assert keys[0] == keys[1]


def test_joint_asks_in_the_words_of_the_single_prompts() -> None:
    _, llm = written(ORDERS["joint"])
    text, shared = sent(llm, 0), shared_variables(example.SCENARIO, example.environment())
    for call in ("instruction", "solution", "verifier"):
        assert guide(call, shared) in text
    assert "/app/RULES.md (this exact path)" in text


def test_a_joint_reply_that_breaks_a_rule_is_asked_for_once_more_as_a_whole() -> None:
    bad = JOINT.model_copy(update={"solution": example.solution("curl https://example.org\n")})
    outcome, llm = written(ORDERS["joint"], joint=[bad, JOINT])
    assert llm.asked == [("joint", example.SEED.key, 0), ("joint", example.SEED.key, 1)]
    assert llm.variables[1]["problems"] == [{"log_tail": "solve.sh calls 'curl', but there is no network."}]
    assert llm.variables[1]["previous"] == example.as_json(bad)
    assert "curl https://example.org" in sent(llm, 1)
    assert isinstance(outcome.value, Draft)
    assert outcome.value.solution == example.SOLUTION
    assert outcome.numbers["regenerated"] == 1


def test_a_joint_reply_is_told_of_a_line_of_the_solution_in_its_instruction() -> None:
    line = next(line.strip() for line in example.SOLVE.splitlines() if "DictReader" in line)
    leaking = example.INSTRUCTION.model_copy(update={"intro": f"{example.INSTRUCTION.intro} {line}"})
    bad = JOINT.model_copy(update={"instruction": leaking})
    _, llm = written(ORDERS["joint"], joint=[bad, JOINT])
    assert "holds a line of the solution" in str(llm.variables[1]["problems"])


def test_a_malformed_joint_reply_is_the_callers_rejection_and_a_malformed_second_one_leaves_the_first() -> None:
    with pytest.raises(MalformedReply):
        written(ORDERS["joint"], joint=[{"instruction": 1}])
    bad = JOINT.model_copy(update={"solution": example.solution("curl x\n")})
    outcome, _ = written(ORDERS["joint"], joint=[bad, {"nonsense": 1}])
    assert isinstance(outcome.value, Draft)
    assert outcome.value.solution == bad.solution
    assert [f.component for f in outcome.facts if isinstance(f, AttemptFact)] == ["", ""]


def test_a_draft_records_how_it_was_written_and_says_nothing_of_the_usual_way() -> None:
    replies = {"instruction": [example.INSTRUCTION], "solution": [example.SOLUTION], "verifier": [example.VERIFIER]}
    value = draft(
        example.SEED,
        example.SCENARIO,
        example.environment(),
        llm=ScriptedLLM(replies),
        write=ORDERS["reverse"],
        order="reverse",
        pipeline="direct",
    ).value
    assert isinstance(value, Draft)
    assert (value.order, value.pipeline) == ("reverse", "direct")
    assert Draft.model_validate_json(value.model_dump_json()) == value
    assert not {"order", "pipeline"} & set(example.draft().model_dump())


def test_a_guide_may_have_parts_and_conditions_and_needs_its_marks(tmp_path: Path) -> None:
    second = "{# guide #}{%- if x %} Two {{ x }}.{%- endif %}{# end of guide #}"
    inner = f"{{# guide #}}\nOne.{{# end of guide #}} Not this. {second}"
    (tmp_path / "parts.md").write_text(f"system\n=== user ===\n{inner}")
    assert guide("parts", {"x": 2, "more": 1}, folder=tmp_path) == "One. Two 2."
    assert guide("parts", {"x": 0}, folder=tmp_path) == "One."
    with pytest.raises(InvariantError, match="needs a guide"):
        guide("judge", {})
    (tmp_path / "open.md").write_text("system\n=== user ===\n{# guide #} One.")
    with pytest.raises(InvariantError, match="needs a guide"):
        guide("open", {}, folder=tmp_path)


def recorded(answer: Any = None) -> MemorySandbox:
    """A sandbox in which every session leaves the example's outputs, unless ``answer`` says otherwise."""
    left = pack({f"app/{path}": data for path, data in {**example.FILES, **OUTPUTS}.items()}, folders=("app",))

    def script(run: Run) -> RunOutcome:
        return answer(run) if answer else ended(collected={"/app": left})

    return MemorySandbox(script)


def test_a_recording_runs_the_session_first_and_derives_the_rest_from_what_it_left() -> None:
    sandbox = recorded()
    outcome, llm = written(Recording(sandbox, 5))
    assert asked(llm) == ["session", "session_instruction", "session_verifier"]
    assert [run.argv for run in sandbox.runs] == [("bash", "/solution/solve.sh")]
    assert outcome.value == written(forward)[0].value
    final = llm.variables[1]["final"]
    assert [file["path"] for file in final["files"]] == ["/app/out/rejects.csv", "/app/out/totals.json"]
    assert final["removed"] == []
    for number in (1, 2):
        assert json.dumps("4,empty\n")[1:-1] in sent(llm, number)
        assert SCRIPT not in sent(llm, number).partition("Write the ")[0]
    components = [f.component for f in outcome.facts if isinstance(f, AttemptFact)]
    assert components == [Component.SOLUTION, Component.INSTRUCTION, Component.VERIFIER]


def test_an_altered_and_a_removed_input_stand_in_the_final_state() -> None:
    files = {**example.FILES, **OUTPUTS, "data/sales.csv": b"id\n"}
    del files["data/regions.json"]
    left = pack({f"app/{path}": data for path, data in files.items()}, folders=("app",))
    _, llm = written(Recording(recorded(lambda run: ended(collected={"/app": left})), 5))
    final = llm.variables[1]["final"]
    assert "/app/data/sales.csv" in [file["path"] for file in final["files"]]
    assert final["removed"] == ["/app/data/regions.json"]


def test_a_session_that_crashes_is_recorded_once_more() -> None:
    good = pack({f"app/{path}": data for path, data in {**example.FILES, **OUTPUTS}.items()}, folders=("app",))

    def answer(run: Run) -> RunOutcome:
        return ended(3, "no such column") if b"broken" in run.put[0].archive else ended(collected={"/app": good})

    outcome, llm = written(Recording(recorded(answer), 5), session=[example.solution("broken\n"), example.SOLUTION])
    assert "exit code 3, no such column" in llm.variables[1]["problems"][0]["log_tail"]
    assert isinstance(outcome.value, Draft)
    assert outcome.value.solution == example.SOLUTION


@pytest.mark.parametrize(
    ("left", "said"),
    [(None, "it ended badly"), (example.E0_ARCHIVE, "it left no file /app/out/totals.json")],
)
def test_a_session_without_a_final_state_gives_no_draft(left: bytes | None, said: str) -> None:
    sandbox = recorded(lambda run: ended(collected={"/app": left}))
    outcome, llm = written(Recording(sandbox, 5), session=[example.SOLUTION, example.solution("true\n")])
    assert asked(llm) == ["session", "session"]
    assert outcome.value is None
    assert outcome.rejection is not None
    assert (outcome.rejection.reason, outcome.rejection.component) == (Reason.TASK_SOLUTION_CRASHED, "solution")
    assert said in outcome.rejection.message
    assert len(outcome.facts) == 2


def test_all_prompts_of_all_orders_begin_alike() -> None:
    texts = []
    for write in (forward, ORDERS["reverse"], ORDERS["joint"], Recording(recorded(), 5)):
        _, llm = written(write)
        messages = [render(c, v, SCHEMAS[c]) for (c, _, _), v in zip(llm.asked, llm.variables, strict=True)]
        texts += [f"{message.system}\n{message.user}" for message in messages]
    shared = texts[0].partition("Write the instruction: the text")[0]
    assert "INITIAL STATE" in shared
    assert [text for text in texts if not text.startswith(shared)] == []
