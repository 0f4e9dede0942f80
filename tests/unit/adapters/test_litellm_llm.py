"""The live model against a scripted server: retries, cache, repair, recording, and a key that is never seen."""

from __future__ import annotations

import json
import logging
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from facet_dagster.adapters.litellm_llm import LitellmLLM
from facet_dagster.adapters.memory import MemoryArtifactStore, MemoryLedger
from facet_dagster.adapters.tape import Tape
from facet_dagster.adapters.tape_llm import TapeLLM
from facet_dagster.domain.facts import FACTS, ModelCallFact, ReplyFact
from facet_dagster.errors import LLMError, MalformedReply
from tests.fixtures.llm_prompts import GOOD, VARIABLES, ToolReply, prompt_folder
from tests.fixtures.llm_server import Answer, LLMServer, fails, says

KEY = "very-secret-value-0123456789"
WRONG: dict[str, Any] = {"tool": "wc", "uses": 0}


class World:
    """A scripted server, a ledger and a store that outlive the LLMs made here; waits are noted, not slept."""

    def __init__(self, folder: Path, server: LLMServer) -> None:
        self.folder = folder
        self.server = server
        self.ledger = MemoryLedger()
        self.store = MemoryArtifactStore()
        self.waits: list[float] = []

    def llm(self, *, model: str = "openai/m", **options: Any) -> LitellmLLM:
        return LitellmLLM(
            model,
            self.server.api_base,
            ledger=self.ledger,
            store=self.store,
            prompts=prompt_folder(self.folder / "prompts"),
            sleep=self.waits.append,
            **{"api_key": KEY, **options},
        )

    def ask(self, *answers: Answer, attempt: int = 0, subject: str = "s", **options: Any) -> ToolReply:
        self.server.add(answers)
        return self.llm(**options).ask("tool", VARIABLES, ToolReply, subject=subject, attempt=attempt)

    def calls(self) -> list[ModelCallFact]:
        return self.ledger.find(ModelCallFact)

    def replay(self, tape: Path) -> TapeLLM:
        return TapeLLM(
            Tape.load(tape), ledger=MemoryLedger(), store=MemoryArtifactStore(), prompts=self.folder / "prompts"
        )


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


# -- retries ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(fails(429, "slow down"), id="429"),
        pytest.param(fails(500), id="500"),
        pytest.param(fails(503), id="503"),
        pytest.param(fails(529, "overloaded"), id="529"),
        pytest.param(fails(408), id="408"),
        pytest.param(Answer(drop="before"), id="dropped before the first byte"),
        pytest.param(Answer(says(GOOD).body, drop="middle"), id="dropped in the middle"),
        pytest.param(Answer(b"<html>gateway</html>"), id="not JSON"),
        pytest.param(Answer(says("?").body.replace(b"?", b"\xff\xfe")), id="not UTF-8"),
        pytest.param(Answer(b'{"id": "r"}'), id="no choices"),
    ],
)
def test_trouble_that_may_pass_is_tried_again(world: World, trouble: Answer) -> None:
    assert world.ask(trouble, trouble, says(GOOD)) == ToolReply(**GOOD)
    assert len(world.server.requests) == 3
    assert len(world.waits) == 2
    assert len(world.ledger.find(ReplyFact)) == 1


def test_a_reply_that_does_not_come_in_time_is_tried_again(world: World) -> None:
    assert world.ask(says(GOOD, stall=True), says(GOOD), seconds=0.3) == ToolReply(**GOOD)
    assert len(world.server.requests) == 2


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [
        ("7", 7.0, 8.0),
        ("0", 0.0, 1.0),
        ("1.5", 1.5, 2.5),
        ("86400", 300.0, 301.0),
        ("-5", 0.0, 1.0),
    ],
)
def test_the_wait_is_what_the_provider_asked_for(world: World, header: str, least: float, most: float) -> None:
    world.ask(fails(429, retry_after=header), says(GOOD))
    assert least <= world.waits[0] <= most


def test_the_provider_may_ask_with_a_date(world: World) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(days=1), usegmt=True)
    world.ask(fails(503, retry_after=date), says(GOOD))
    assert 300 <= world.waits[0] <= 301


@pytest.mark.parametrize("header", ["soon", "Mon, 99 Foo 2030", ""])
def test_a_wait_that_makes_no_sense_is_backed_off_from(world: World, header: str) -> None:
    world.ask(fails(429, retry_after=header), says(GOOD))
    assert 0 <= world.waits[0] <= 1


def test_the_back_off_grows_up_to_a_minute(world: World) -> None:
    world.ask(*[fails(500)] * 8, says(GOOD), retries=8)
    assert all(wait <= min(60, 2**n) for n, wait in enumerate(world.waits))
    assert len(world.waits) == 8


def test_when_the_tries_run_out_the_error_is_transient_and_nothing_was_paid(world: World) -> None:
    with pytest.raises(LLMError, match="did not answer in 3 tries") as caught:
        world.ask(*[fails(500, "kaputt")] * 3, retries=2)
    assert caught.value.transient
    assert "kaputt" in str(caught.value)
    assert world.ledger.find(ReplyFact) == []


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        (fails(401, "no such key"), "set OPENAI_API_KEY to a valid key"),
        (fails(403, "forbidden"), "set OPENAI_API_KEY to a valid key"),
        (fails(404, "no model m", code="model_not_found"), "There is no model openai/m: correct FACET_MODEL"),
        (fails(400, "maximum context length is 8", code="context_length_exceeded"), "does not fit the context"),
        (fails(402, "pay"), "no credit left"),
        (fails(429, "You exceeded your current quota", code="insufficient_quota"), "no credit left"),
        (fails(400, "top_k is unknown"), "refused the request (status 400). The provider said: top_k is unknown"),
        (fails(413, "too large"), "refused the request (status 413)"),
    ],
)
def test_trouble_that_stays_fails_at_once_in_one_sentence(world: World, trouble: Answer, said: str) -> None:
    with pytest.raises(LLMError) as caught:
        world.ask(trouble)
    assert said in str(caught.value)
    assert not caught.value.transient
    assert len(world.server.requests) == 1
    assert world.waits == []


@pytest.mark.parametrize("model", ["nosuchprovider/m", "m"])
def test_a_model_that_litellm_does_not_know_fails_at_once(world: World, model: str) -> None:
    with pytest.raises(LLMError, match=r"correct FACET_MODEL \(provider/model\)"):
        world.ask(model=model)
    assert world.waits == []


# -- malformed replies -------------------------------------------------------------------------------------


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


# -- cache ---------------------------------------------------------------------------------------------


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


# -- recording ---------------------------------------------------------------------------------------------


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


# -- the probe -----------------------------------------------------------------------------------------


def test_a_probe_is_one_request_that_is_counted_and_never_cached(world: World) -> None:
    for _ in range(2):
        world.server.add([says({"ready": True})])
        world.llm().probe()
    assert len(world.server.requests) == 2
    assert [call.call for call in world.calls()] == ["probe", "probe"]
    assert world.ledger.find(ReplyFact) == []


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (says("Sure, ready!"), "not with the JSON it was asked for"),
        (says({"ready": False}), "not with the JSON it was asked for"),
        (says({"ready": True}, finish="length"), "raise FACET_MAX_TOKENS"),
        (fails(401), "set OPENAI_API_KEY"),
        (fails(404), "correct FACET_MODEL"),
    ],
)
def test_a_probe_that_fails_says_what_to_set(world: World, answer: Answer, said: str) -> None:
    world.server.add([answer])
    with pytest.raises(LLMError) as caught:
        world.llm().probe()
    assert said in str(caught.value)


def test_a_probe_of_an_endpoint_that_does_not_answer_names_the_model(world: World) -> None:
    llm = LitellmLLM(
        "openai/m", "http://127.0.0.1:1/v1", ledger=world.ledger, store=world.store, retries=1, sleep=world.waits.append
    )
    with pytest.raises(LLMError, match="openai/m did not answer in 2 tries"):
        llm.probe()


# -- the key -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 429, 500])
def test_the_key_is_never_seen_after_a_failure_that_quotes_it(
    world: World, status: int, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    caplog.set_level(logging.INFO)
    tape = tmp_path / "t.jsonl"
    world.ask(says(GOOD), record=tape)
    with pytest.raises(LLMError) as caught:
        world.ask(
            fails(status, f"Bad key {KEY} (Bearer {KEY}) at sk-proj-abcdef123"), retries=0, record=tape, attempt=1
        )
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + "".join(capfd.readouterr())
    facts = "".join(str(fact) for kind in FACTS for fact in world.ledger.find(kind))
    blobs = "".join(world.store.get(fact.reply).decode() for fact in world.calls())
    everything = shown + caplog.text + facts + blobs + tape.read_text()
    assert KEY not in everything
    assert "sk-proj-abcdef123" not in everything
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_key_from_the_environment_is_scrubbed_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(LLMError, match=r"Bad key \*\*\*") as caught:
        world.ask(fails(400, f"Bad key {KEY}"), api_key=None)
    assert world.server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in str(caught.value)


def test_a_missing_key_fails_before_any_request(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    llm = LitellmLLM("openai/m", ledger=world.ledger, store=world.store, sleep=world.waits.append)
    with pytest.raises(LLMError, match="set OPENAI_API_KEY to a valid key"):
        llm.probe()
    assert world.waits == []
