"""One suite on every LLM: a script, a tape, and litellm before a scripted server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from facet_dagster.adapters.litellm_llm import LitellmLLM
from facet_dagster.adapters.memory import MemoryArtifactStore, MemoryLedger, ScriptedLLM
from facet_dagster.adapters.tape import Tape
from facet_dagster.adapters.tape_llm import TapeLLM
from facet_dagster.errors import LLMError, MalformedReply
from facet_dagster.ports import LLM
from tests.fixtures.llm_prompts import GOOD, VARIABLES, ToolReply, prompt_folder
from tests.fixtures.llm_server import LLMServer, says
from tests.fixtures.llm_world import one_model

WRONG: dict[str, Any] = {"tool": "wc", "uses": 0}
Make = Callable[..., LLM]
"""make({attempt: reply}) -> an LLM that answers ``tool`` with these replies; a wrong one stays wrong when repaired."""


@pytest.fixture(params=["script", "litellm", "tape"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    folder = prompt_folder(tmp_path / "prompts")
    with ExitStack() as stack:

        def live(replies: Mapping[int, Any], record: Path | None = None) -> LitellmLLM:
            answers = [says(reply) for reply in replies.values() for _ in range(1 + (reply == WRONG))]
            server = stack.enter_context(LLMServer(*answers))
            ports = {"ledger": MemoryLedger(), "store": MemoryArtifactStore()}
            return LitellmLLM(
                one_model("openai/m", server.api_base),
                prompts=folder,
                record=record,
                retries=0,
                **ports,  # type: ignore[arg-type]
            )

        def tape(replies: Mapping[int, Any]) -> TapeLLM:
            path = tmp_path / "tape.jsonl"
            recorder = live(replies, record=path)
            for attempt in replies:
                try:
                    recorder.ask("tool", VARIABLES, ToolReply, subject="s", attempt=attempt)
                except MalformedReply:
                    continue
            recorder.pin("other", "s", list)
            return TapeLLM(Tape.load(path), ledger=MemoryLedger(), store=MemoryArtifactStore(), prompts=folder)

        def script(replies: Mapping[int, Any]) -> ScriptedLLM:
            return ScriptedLLM({"tool": list(replies.values())})

        makers: dict[str, Make] = {"script": script, "litellm": live, "tape": tape}
        yield makers[request.param]


def ask(llm: LLM, attempt: int = 0) -> ToolReply:
    return llm.ask("tool", VARIABLES, ToolReply, subject="s", attempt=attempt)


def test_a_reply_is_an_instance_of_its_schema(make: Make) -> None:
    assert ask(make({0: GOOD})) == ToolReply(**GOOD)


def test_each_attempt_has_a_reply_of_its_own(make: Make) -> None:
    llm = make({0: GOOD, 1: {"tool": "nl", "uses": 1}})
    assert [ask(llm, attempt).tool for attempt in (0, 1)] == ["wc", "nl"]


def test_a_reply_that_never_fits_is_a_malformed_reply_with_its_raw_text_and_problem(make: Make) -> None:
    with pytest.raises(MalformedReply) as caught:
        ask(make({0: WRONG}))
    assert "wc" in caught.value.raw
    assert "uses" in caught.value.problem
    assert not caught.value.transient


def test_a_malformed_reply_does_not_spoil_the_next_attempt(make: Make) -> None:
    llm = make({0: WRONG, 1: GOOD})
    with pytest.raises(MalformedReply):
        ask(llm)
    assert ask(llm, attempt=1) == ToolReply(**GOOD)


def test_no_reply_is_ever_invented(make: Make) -> None:
    with pytest.raises(LLMError):
        ask(make({}))


def test_a_ranking_is_computed(make: Make) -> None:
    assert make({0: GOOD}).pin("neighbours", "s", lambda: ["a", "b"]) == ["a", "b"]


def test_a_reply_is_plain_data(make: Make) -> None:
    assert json.loads(ask(make({0: GOOD})).model_dump_json()) == GOOD
