"""Replay: the recorded reply or a clear TapeMiss, never an invented one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from facet_dagster.adapters.conversation import input_digests
from facet_dagster.adapters.memory import MemoryArtifactStore, MemoryLedger
from facet_dagster.adapters.tape import Tape, TapeMeta, TapePin, TapeReply
from facet_dagster.adapters.tape_llm import TapeLLM
from facet_dagster.domain.facts import ModelCallFact
from facet_dagster.domain.outcome import Value
from facet_dagster.errors import MalformedReply, TapeMiss
from facet_dagster.prompts import render
from tests.fixtures.llm_prompts import GOOD, TEXT, VARIABLES, ToolReply, prompt_folder

META = TapeMeta(model="openai/recorded", how="by hand", made="2030-01-31", project="0.1.0")
BAD = '{"tool": "wc", "uses": 0}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return prompt_folder(tmp_path / "prompts")


def entry(
    folder: Path,
    reply: str,
    *,
    turn: int = 0,
    attempt: int = 0,
    subject: str = "s",
    finish: str = "stop",
    variables: dict[str, Any] = VARIABLES,
) -> TapeReply:
    rendered = render("tool", variables, ToolReply, folder=folder)
    return TapeReply(
        call="tool",
        template=rendered.template,
        variables=rendered.variables,
        inputs=input_digests(variables),
        attempt=attempt,
        turn=turn,
        subject=subject,
        reply=reply,
        finish=finish,
        prompt_tokens=30,
        completion_tokens=4,
    )


def player(folder: Path, *entries: TapeReply | TapePin, ledger: MemoryLedger | None = None) -> TapeLLM:
    tape = Tape.of([META, *entries], Path("t.jsonl"))
    return TapeLLM(tape, ledger=ledger or MemoryLedger(), store=MemoryArtifactStore(), run_id="r1", prompts=folder)


def missed(llm: TapeLLM, variables: dict[str, Any] = VARIABLES, *, subject: str = "s", attempt: int = 0) -> str:
    with pytest.raises(TapeMiss) as caught:
        llm.ask("tool", variables, ToolReply, subject=subject, attempt=attempt)
    assert not caught.value.transient
    assert "FACET_RECORD" in str(caught.value)
    return str(caught.value)


def test_a_recorded_reply_is_replayed_and_counted(folder: Path) -> None:
    ledger = MemoryLedger()
    llm = player(folder, entry(folder, json.dumps(GOOD)), ledger=ledger)
    assert llm.ask("tool", VARIABLES, ToolReply, subject="s") == ToolReply(**GOOD)
    (fact,) = ledger.find(ModelCallFact)
    assert (fact.origin, fact.model, fact.turn, fact.malformed) == ("tape", "openai/recorded", 0, False)
    assert (fact.prompt_tokens, fact.completion_tokens, fact.run_id) == (30, 4, "r1")


def test_facts_of_the_machine_do_not_matter(folder: Path) -> None:
    llm = player(folder, entry(folder, json.dumps(GOOD)))
    elsewhere = {**VARIABLES, "environment": {"workdir": "/app", "image_id": "sha256:other", "size": 3}}
    assert llm.ask("tool", elsewhere, ToolReply, subject="s") == ToolReply(**GOOD)


def test_another_subject_with_the_same_question_gets_the_same_reply(folder: Path) -> None:
    llm = player(folder, entry(folder, json.dumps(GOOD)))
    assert llm.ask("tool", VARIABLES, ToolReply, subject="other") == ToolReply(**GOOD)


def test_a_bad_reply_is_followed_by_its_recorded_repair(folder: Path) -> None:
    ledger = MemoryLedger()
    llm = player(folder, entry(folder, BAD), entry(folder, json.dumps(GOOD), turn=1), ledger=ledger)
    assert llm.ask("tool", VARIABLES, ToolReply, subject="s") == ToolReply(**GOOD)
    assert [(f.turn, f.malformed) for f in ledger.find(ModelCallFact)] == [(0, True), (1, False)]


def test_a_reply_that_was_cut_off_live_is_cut_off_on_the_tape_too(folder: Path) -> None:
    llm = player(folder, entry(folder, json.dumps(GOOD), finish="length"), entry(folder, BAD, turn=1))
    with pytest.raises(MalformedReply) as caught:
        llm.ask("tool", VARIABLES, ToolReply, subject="s")
    assert caught.value.raw == BAD
    assert "uses" in caught.value.problem


def test_a_bad_reply_without_a_recorded_repair_is_a_miss(folder: Path) -> None:
    assert "no longer fits its schema" in missed(player(folder, entry(folder, BAD)))


def test_an_empty_tape_has_no_reply_to_the_call(folder: Path) -> None:
    said = missed(player(folder))
    assert "Call tool for s (attempt 0): the tape has no reply to this call at all" in said


def test_a_subject_that_was_never_recorded_is_named(folder: Path) -> None:
    said = missed(player(folder, entry(folder, "{}")), {**VARIABLES, "note": "new"}, subject="new")
    assert "Call tool for new" in said
    assert "none for this subject" in said


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"note": "other"}, "note"),
        ({"environment": {"workdir": "/srv"}}, "environment"),
        ({"note": "other", "environment": {}}, "environment, note"),
    ],
)
def test_a_changed_variable_is_named(folder: Path, changed: dict[str, Any], named: str) -> None:
    said = missed(player(folder, entry(folder, "{}")), {**VARIABLES, **changed})
    assert f"these variables differ from the recorded ones: {named}: record" in said
    assert "prompt tool" not in said


def test_the_nearest_recorded_entry_is_compared(folder: Path) -> None:
    far = entry(folder, "{}", variables={"note": "x", "environment": {"y": 1}})
    near = entry(folder, "{}", variables={**VARIABLES, "note": "x"})
    assert "recorded ones: note:" in missed(player(folder, far, near))


def test_a_changed_prompt_is_named(folder: Path, tmp_path: Path) -> None:
    changed = prompt_folder(tmp_path / "changed", TEXT + "Be brief.\n")
    said = missed(player(changed, entry(folder, "{}")))
    assert "prompt tool or its reply schema changed since the tape was made" in said
    assert "variables" not in said


def test_a_changed_schema_is_a_changed_prompt(folder: Path) -> None:
    class OtherReply(Value):
        tool: str

    with pytest.raises(TapeMiss, match="prompt tool or its reply schema changed"):
        player(folder, entry(folder, "{}")).ask("tool", VARIABLES, OtherReply, subject="s")


def test_another_attempt_is_another_entry(folder: Path) -> None:
    llm = player(folder, entry(folder, json.dumps(GOOD)))
    assert "only attempt 0 was recorded" in missed(llm, attempt=1)


def test_a_recorded_ranking_is_returned_instead_of_computed(folder: Path) -> None:
    llm = player(folder, TapePin(name="neighbours", subject="a", values=["b"]))
    assert llm.pin("neighbours", "a", lambda: ["computed"]) == ["b"]


def test_a_ranking_is_computed_when_the_tape_has_none_of_its_name(folder: Path) -> None:
    llm = player(folder, TapePin(name="neighbours", subject="a", values=["b"]))
    assert llm.pin("selection", "a", lambda: ["computed"]) == ["computed"]


def test_a_ranking_that_is_missing_among_recorded_ones_is_a_miss(folder: Path) -> None:
    llm = player(folder, TapePin(name="neighbours", subject="a", values=["b"]))
    with pytest.raises(TapeMiss, match="no ranking neighbours for z"):
        llm.pin("neighbours", "z", lambda: ["computed"])


def test_in_lenient_mode_a_stale_entry_of_the_same_call_is_used_with_a_warning(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tape = Tape.of([META, entry(folder, json.dumps(GOOD))], Path("t.jsonl"))
    llm = TapeLLM(tape, ledger=MemoryLedger(), store=MemoryArtifactStore(), prompts=folder, lenient=True)
    changed = {**VARIABLES, "note": "something else"}
    assert llm.ask("tool", changed, ToolReply, subject="s") == ToolReply(**GOOD)
    assert "these variables differ from the recorded ones: note" in caplog.text
    with pytest.raises(TapeMiss):
        llm.ask("tool", changed, ToolReply, subject="another")
