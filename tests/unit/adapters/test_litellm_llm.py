"""The live model: one paid request per question, repair, cache, recording."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from facet_dagster.adapters.litellm_llm import LitellmLLM
from facet_dagster.adapters.tape import Tape
from facet_dagster.domain.facts import ReplyFact
from facet_dagster.errors import LLMError, MalformedReply
from facet_dagster.funnel import Outcome, Work, settle
from tests.fixtures.llm_prompts import GOOD, VARIABLES, ToolReply
from tests.fixtures.llm_server import Answer, LLMServer, fails, says
from tests.fixtures.llm_world import KEY, WRONG, World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with LLMServer() as server:
        yield World(tmp_path, server)


def test_the_request_carries_the_prompt_the_parameters_and_the_key(world: World) -> None:
    assert world.ask(says(GOOD), temperature=0.2, max_tokens=500) == ToolReply(**GOOD)
    (request,) = world.server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert (request.body["model"], request.body["temperature"], request.body["max_tokens"]) == ("m", 0.2, 500)
    assert [message["role"] for message in request.body["messages"]] == ["system", "user"]
    assert "count the lines" in request.body["messages"][1]["content"]


def test_a_paid_reply_is_one_reply_fact_and_one_call_fact(world: World) -> None:
    world.ask(says(GOOD, reasoning_content="hm"), run_id="r1")
    (paid,), (call,) = world.ledger.find(ReplyFact), world.calls()
    assert (paid.call, paid.model, paid.prompt_tokens, paid.completion_tokens) == ("tool", "openai/m", 30, 4)
    assert (call.origin, call.turn, call.malformed, call.subject, call.run_id) == ("live", 0, False, "s", "r1")
    assert call.cache_key == paid.cache_key
    stored = json.loads(world.store.get(call.reply))
    assert stored == {"text": json.dumps(GOOD), "finish": "stop", "reasoning": "hm"}


def test_tokens_are_estimated_when_the_provider_does_not_count(world: World) -> None:
    world.ask(says(GOOD, usage=False))
    (call,) = world.calls()
    assert call.prompt_tokens > 50
    assert call.completion_tokens > 5


def test_a_server_of_ones_own_needs_no_key(world: World) -> None:
    assert world.ask(says(GOOD), api_key=None) == ToolReply(**GOOD)


@pytest.mark.parametrize("model", ["openai/m", "anthropic/m"])
@pytest.mark.parametrize("given", [None, ""])
def test_the_providers_own_key_never_goes_to_another_address(
    world: World, monkeypatch: pytest.MonkeyPatch, model: str, given: str | None
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "the-key-of-another")
    with contextlib.suppress(LLMError):  # not every provider's form is understood there
        world.ask(*[says(GOOD)] * 3, api_key=given, model=model, retries=0)
    assert world.server.requests
    assert "the-key-of-another" not in repr(world.server.requests)


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        pytest.param(says(WRONG), "uses: Input should be greater than or equal to 1", id="wrong value"),
        pytest.param(says({"tool": ["wc"], "uses": 1}), "tool: Input should be a valid string", id="wrong type"),
        pytest.param(says(""), "the reply was empty", id="empty"),
        pytest.param(says(None), "the reply was empty", id="null"),
        pytest.param(says(GOOD, finish="length"), "cut off by max_tokens", id="length stop"),
        pytest.param(says(GOOD, finish="content_filter"), "content filter", id="filter stop"),
        pytest.param(says("I will not."), "no JSON object", id="prose"),
        pytest.param(says("<think>hm, {}"), "no text outside its reasoning", id="thoughts alone"),
        pytest.param(says('{"tool": "' + "x" * 5_000_000 + '", "uses": 1}'), "longer than 2,000,000", id="5 MB"),
    ],
)
def test_a_malformed_reply_is_repaired_by_one_call_that_quotes_the_problem(
    world: World, bad: Answer, problem: str
) -> None:
    assert world.ask(bad, says(GOOD)) == ToolReply(**GOOD)
    first, second = (request.body["messages"] for request in world.server.requests)
    assert second[:2] == first
    assert [message["role"] for message in second[2:]] == ["assistant", "user"]
    assert second[2]["content"]
    assert len(second[2]["content"]) <= 20_000
    assert problem in second[3]["content"]
    assert [(call.turn, call.malformed) for call in world.calls()] == [(0, True), (1, False)]


@pytest.mark.parametrize(
    "text",
    ['```json\n{"tool": "wc", "uses": 2}\n```', '{"tool": "wc", "uses": 2,}', '{"a": 1} {"tool": "wc", "uses": 2}'],
)
def test_form_alone_costs_no_second_call(world: World, text: str) -> None:
    assert world.ask(says(text)) == ToolReply(**GOOD)
    assert len(world.server.requests) == 1


def test_a_reply_that_is_wrong_twice_is_malformed_and_asked_no_third_time(world: World) -> None:
    with pytest.raises(MalformedReply) as caught:
        world.ask(says("no"), says(WRONG), says(GOOD))
    assert caught.value.raw == json.dumps(WRONG)
    assert "uses" in caught.value.problem
    assert "Call tool for s" in str(caught.value)
    assert len(world.server.requests) == 2


def test_a_malformed_outcome_is_repeated_from_the_cache_at_no_cost(world: World) -> None:
    messages = []
    for answers in ([says("no"), says(WRONG)], []):
        with pytest.raises(MalformedReply) as caught:
            world.ask(*answers)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert len(world.server.requests) == 2
    assert [call.origin for call in world.calls()] == ["live", "live", "cache", "cache"]


def test_trouble_during_the_repair_call_is_trouble_and_the_first_reply_stays_paid(world: World) -> None:
    with pytest.raises(LLMError, match="did not answer"):
        world.ask(says(WRONG), fails(500), retries=0)
    assert world.ask(says(GOOD)) == ToolReply(**GOOD)
    assert [(call.turn, call.origin) for call in world.calls()] == [(0, "live"), (0, "cache"), (1, "live")]


def test_a_hit_makes_no_request_and_is_recorded(world: World) -> None:
    assert world.ask(says(GOOD)) == world.ask(subject="another")
    assert len(world.server.requests) == 1
    assert [(call.origin, call.subject) for call in world.calls()] == [("live", "s"), ("cache", "another")]
    assert {(call.prompt_tokens, call.completion_tokens) for call in world.calls()} == {(30, 4)}


@pytest.mark.parametrize(
    "changed", [{"model": "openai/other"}, {"temperature": 0.1}, {"max_tokens": 999}, {"attempt": 1}]
)
def test_another_model_parameter_or_attempt_is_another_request(world: World, changed: dict[str, Any]) -> None:
    world.ask(says(GOOD))
    world.ask(says(GOOD), **changed)
    assert len(world.server.requests) == 2


def test_equal_requests_at_the_same_time_become_one(world: World) -> None:
    world.server.add([says(GOOD, stall=True)])
    llms = [world.llm() for _ in range(4)]
    ready = threading.Barrier(5)

    def ask(llm: LitellmLLM) -> ToolReply:
        ready.wait(30)
        return llm.ask("tool", VARIABLES, ToolReply, subject="s")

    with ThreadPoolExecutor(4) as pool:
        replies = [pool.submit(ask, llm) for llm in llms]
        ready.wait(30)
        world.server.release.set()
        assert {reply.result(60).tool for reply in replies} == {"wc"}
    assert len(world.server.requests) == 1
    assert sorted(call.origin for call in world.calls()) == ["cache", "cache", "cache", "live"]


def test_what_was_recorded_is_replayed(world: World, tmp_path: Path) -> None:
    tape = tmp_path / "t.jsonl"
    first = world.ask(says("no"), says(GOOD), record=tape)
    second = world.ask(says({"tool": "nl", "uses": 1}), record=tape, attempt=1)
    world.llm(record=tape).pin("neighbours", "a", lambda: ["b"])
    replay = world.replay(tape)
    assert replay.ask("tool", VARIABLES, ToolReply, subject="s") == first
    assert replay.ask("tool", VARIABLES, ToolReply, subject="s", attempt=1) == second
    assert replay.pin("neighbours", "a", lambda: ["c"]) == ["b"]
    assert Tape.load(tape).meta.model == "openai/m"


def test_a_malformed_outcome_is_replayed_as_the_same_one(world: World, tmp_path: Path) -> None:
    with pytest.raises(MalformedReply) as live:
        world.ask(says(GOOD, finish="length"), says(WRONG), record=tmp_path / "t.jsonl")
    with pytest.raises(MalformedReply) as replayed:
        world.replay(tmp_path / "t.jsonl").ask("tool", VARIABLES, ToolReply, subject="s")
    assert str(replayed.value) == str(live.value)
    assert (replayed.value.raw, replayed.value.problem) == (live.value.raw, live.value.problem)


def test_a_tape_made_from_the_cache_equals_the_one_made_live(world: World, tmp_path: Path) -> None:
    for name, answers in (("live", [says("no"), says(GOOD)]), ("cached", [])):
        world.ask(*answers, record=tmp_path / name)
    assert (tmp_path / "live").read_bytes() == (tmp_path / "cached").read_bytes()


def test_recording_again_changes_nothing(world: World, tmp_path: Path) -> None:
    tape = tmp_path / "t.jsonl"
    world.ask(says(GOOD), record=tape)
    before = tape.read_bytes()
    world.ask(record=tape)
    assert tape.read_bytes() == before


def test_without_recording_a_ranking_is_just_computed(world: World) -> None:
    assert world.llm().pin("neighbours", "a", lambda: ["b"]) == ["b"]


def test_a_retry_passes_over_what_was_paid_before_and_is_paid_once(world: World) -> None:
    again = {**GOOD, "uses": 9}
    world.ask(says(GOOD))
    world.server.add([says(again)])

    def compute(key: str) -> Outcome:
        said = world.llm().ask("tool", VARIABLES, ToolReply, subject=key)
        return Outcome(said)

    ports: dict[str, Any] = {"ledger": world.ledger, "store": world.store, "run_id": ""}
    for digest, retry, uses in (("d1", 1, 9), ("d2", 1, 9), ("d3", 0, GOOD["uses"])):
        result = settle("stage", Work("s", digest, retry=retry), compute, **ports)
        assert ToolReply.model_validate_json(world.store.get(result.output or "")).uses == uses
    assert len(world.server.requests) == 2
