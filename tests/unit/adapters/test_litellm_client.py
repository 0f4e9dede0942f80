"""One request to a provider: what is tried again, what fails at once and how it says so, and a key never seen."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from facet_dagster.deployments import Deployment
from facet_dagster.domain.facts import FACTS, ReplyFact
from facet_dagster.errors import LLMError
from tests.fixtures.llm_prompts import GOOD, ToolReply
from tests.fixtures.llm_server import Answer, LLMServer, fails, says
from tests.fixtures.llm_world import KEY, World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with LLMServer() as server:
        yield World(tmp_path, server)


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
    nowhere = Deployment(model="openai/m", api_base="http://127.0.0.1:1/v1")
    llm = world.llm(deployments=(nowhere,), retries=1)
    with pytest.raises(LLMError, match=r"openai/m cannot be reached at http://127\.0\.0\.1:1/v1: check that it runs"):
        llm.probe()


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
    assert world.server.requests[0].headers["authorization"] == "Bearer none"
    assert KEY not in str(caught.value)


def test_a_missing_key_fails_before_any_request(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    llm = world.llm(deployments=(Deployment(model="openai/m"),))
    with pytest.raises(LLMError, match="set OPENAI_API_KEY to a valid key"):
        llm.probe()
    assert world.waits == []
