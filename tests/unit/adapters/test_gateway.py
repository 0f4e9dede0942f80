"""Several models and endpoints, money, budgets, native structured output, and stopping."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import SecretStr

from facet_dagster.adapters.spending import Budgets, Purse
from facet_dagster.deployments import Deployment, ModelSpec, Price
from facet_dagster.domain.facts import ModelCallFact, ReplyFact
from facet_dagster.errors import BudgetExceeded, ConfigError, LLMError, Stopping
from tests.fixtures.llm_prompts import GOOD, VARIABLES, ToolReply
from tests.fixtures.llm_server import Answer, LLMServer, fails, says
from tests.fixtures.llm_world import KEY, World, table

PRICE = Price(input=100, output=1000)  # a reply of the scripted server: 30 tokens in, 4 out
COST = (30 * 100 + 4 * 1000) / 1e6


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with LLMServer() as server:
        yield World(tmp_path, server)


@pytest.fixture
def other() -> Iterator[LLMServer]:
    with LLMServer() as server:
        yield server


def at(server: LLMServer, model: str = "openai/m", **more: float) -> Deployment:
    return Deployment(model=model, api_base=server.api_base, key=SecretStr(KEY), **more)


# --- money ----------------------------------------------------------------------------------------------------------


def test_a_price_of_the_file_makes_the_cost_and_a_hit_costs_nothing(world: World) -> None:
    world.ask(says(GOOD), price=PRICE)
    world.ask(price=PRICE)
    assert [call.cost for call in world.calls()] == [pytest.approx(COST), 0.0]
    assert [fact.cost for fact in world.ledger.find(ReplyFact)] == [pytest.approx(COST)]
    assert all(len(call.day) == 10 for call in world.calls())


def test_a_price_that_litellm_knows_is_used(world: World) -> None:
    world.ask(says(GOOD), model="openai/gpt-4o-mini")
    (call,) = world.calls()
    assert call.cost == pytest.approx(30 * 0.15e-6 + 4 * 0.6e-6)


def test_an_unknown_price_is_none_and_not_nothing(world: World) -> None:
    world.ask(says(GOOD))
    assert [call.cost for call in world.calls()] == [None]


def test_tries_and_waits_are_counted(world: World) -> None:
    world.ask(fails(429, retry_after="2"), fails(500), says(GOOD))
    (call,) = world.calls()
    assert call.retries == 2
    assert call.waited == pytest.approx(sum(world.waits), abs=0.01)


def test_counters_tell_what_this_adapter_did(world: World) -> None:
    world.server.add([says("no json"), says(GOOD)])
    llm = world.llm(price=PRICE)
    llm.ask("tool", VARIABLES, ToolReply, subject="s")
    llm.ask("tool", VARIABLES, ToolReply, subject="t")
    counters = llm.counters()
    assert (counters["calls"], counters["hits"], counters["malformed"]) == (4, 2, 2)
    assert counters["cost"] == pytest.approx(2 * COST)


# --- budgets --------------------------------------------------------------------------------------------------------


def ask(world: World, attempt: int, budgets: Budgets, subject: str = "s") -> ToolReply:
    return world.llm(price=PRICE, budgets=budgets).ask("tool", VARIABLES, ToolReply, subject=subject, attempt=attempt)


def test_a_day_is_counted_over_processes_and_goes_on_when_the_budget_is_raised(world: World) -> None:
    world.server.add([says(GOOD)] * 3)
    for attempt in range(2):
        ask(world, attempt, Budgets(day=1.5 * COST))
    with pytest.raises(BudgetExceeded, match="FACET_BUDGET_DAY"):
        ask(world, 2, Budgets(day=1.5 * COST))
    assert ask(world, 0, Budgets(day=1.5 * COST)) == ToolReply(**GOOD), "what was paid is still there"
    assert ask(world, 2, Budgets(day=10 * COST)) == ToolReply(**GOOD)
    assert len(world.server.requests) == 3


def test_a_seed_has_a_budget_of_its_own(world: World) -> None:
    world.server.add([says(GOOD)] * 2)
    ask(world, 0, Budgets(seed=COST))
    with pytest.raises(BudgetExceeded, match="FACET_BUDGET_SEED allows for s are spent"):
        ask(world, 1, Budgets(seed=COST))
    assert ask(world, 1, Budgets(seed=COST), subject="another") == ToolReply(**GOOD)


def test_probes_use_up_no_seeds_budget(world: World) -> None:
    world.server.add([says({"ready": True})] * 5)
    for _ in range(5):
        world.llm(price=PRICE, budgets=Budgets(seed=COST)).probe()
    assert world.ledger.total(ModelCallFact, "cost", subject="") > COST


def test_a_warning_comes_once_before_the_end(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.server.add([says(GOOD)] * 3)
    llm = world.llm(price=PRICE, budgets=Budgets(run=3.3 * COST))
    with caplog.at_level(logging.WARNING):
        for attempt in range(3):
            llm.ask("tool", VARIABLES, ToolReply, subject="s", attempt=attempt)
        assert caplog.messages == []
        with pytest.raises(LLMError):
            llm.ask("tool", VARIABLES, ToolReply, subject="s", attempt=3)  # the script is over: nothing is paid
    assert len([m for m in caplog.messages if "FACET_BUDGET_RUN" in m]) == 1


def test_sixty_four_calls_at_once_overrun_by_no_more_than_themselves(world: World) -> None:
    world.server.add([says(GOOD)] * 200)
    llm = world.llm(price=PRICE, budgets=Budgets(run=10.5 * COST))

    def one(attempt: int) -> bool:
        try:
            llm.ask("tool", VARIABLES, ToolReply, subject="s", attempt=attempt)
        except BudgetExceeded:
            return False
        return True

    with ThreadPoolExecutor(64) as pool:
        paid = sum(pool.map(one, range(200)))
    assert 11 <= paid <= 11 + 64
    assert paid == len(world.server.requests)


def test_a_budget_on_a_model_without_a_price_is_refused(world: World) -> None:
    with pytest.raises(ConfigError, match="price of openai/m is not known"):
        world.llm(budgets=Budgets(day=1)).probe()
    assert world.server.requests == []


# --- several models and endpoints -----------------------------------------------------------------------------------


def test_every_call_goes_to_its_model_and_the_cache_knows_the_difference(world: World, other: LLMServer) -> None:
    world.server.add([says(GOOD)])
    other.add([says({**GOOD, "uses": 7})])
    default, judge = (
        ModelSpec(name=n, deployments=(at(s, m),))
        for n, s, m in (("a", world.server, "openai/m"), ("b", other, "openai/n"))
    )
    one, two = table(default), table(default, judge, tool="b")
    assert world.llm_of(one).ask("tool", VARIABLES, ToolReply, subject="s").uses == GOOD["uses"]
    assert world.llm_of(two).ask("tool", VARIABLES, ToolReply, subject="s").uses == 7
    assert [call.model for call in world.calls()] == ["openai/m", "openai/n"]


def test_a_fall_back_answers_when_all_tries_failed(world: World, other: LLMServer) -> None:
    world.server.add([fails(500)] * 2)
    other.add([says(GOOD)])
    models = table(
        ModelSpec(name="a", deployments=(at(world.server),), fallbacks=("b",)),
        ModelSpec(name="b", deployments=(at(other, "openai/spare"),)),
    )
    assert world.llm_of(models, retries=1).ask("tool", VARIABLES, ToolReply, subject="s") == ToolReply(**GOOD)
    assert [call.model for call in world.calls()] == ["openai/spare"]


def test_a_wrong_key_is_not_hidden_by_a_fall_back(world: World, other: LLMServer) -> None:
    world.server.add([fails(401, f"bad key {KEY}")])
    models = table(
        ModelSpec(name="a", deployments=(at(world.server),), fallbacks=("b",)),
        ModelSpec(name="b", deployments=(at(other),)),
    )
    with pytest.raises(LLMError, match="refused the key") as caught:
        world.llm_of(models).ask("tool", VARIABLES, ToolReply, subject="s")
    assert KEY not in str(caught.value)
    assert other.requests == []


def test_deployments_share_the_work_by_weight(world: World, other: LLMServer) -> None:
    for server in (world.server, other):
        server.add([says(GOOD)] * 60)
    spec = ModelSpec(name="a", deployments=(at(world.server, weight=3), at(other, weight=1)))
    llm = world.llm_of(table(spec))
    for attempt in range(60):
        llm.ask("tool", VARIABLES, ToolReply, subject="s", attempt=attempt)
    assert len(world.server.requests) + len(other.requests) == 60
    assert len(world.server.requests) > len(other.requests) > 0


def test_a_deployment_gets_no_more_than_its_requests_a_minute(world: World, other: LLMServer) -> None:
    for server in (world.server, other):
        server.add([says(GOOD)] * 20)
    spec = ModelSpec(name="a", deployments=(at(world.server, rpm=3), at(other, rpm=1000)))
    llm = world.llm_of(table(spec))
    for attempt in range(20):
        llm.ask("tool", VARIABLES, ToolReply, subject="s", attempt=attempt)
    assert len(world.server.requests) <= 6, "at most two windows of a minute"
    assert len(world.server.requests) + len(other.requests) == 20


# --- structured output ----------------------------------------------------------------------------------------------


def test_a_provider_that_takes_schemas_gets_the_schema(world: World) -> None:
    world.ask(says(GOOD), structured="native")
    form = world.server.requests[0].body["response_format"]
    assert form["json_schema"]["name"] == "ToolReply"
    assert set(form["json_schema"]["schema"]["properties"]) == set(GOOD)


def test_an_unknown_model_is_asked_in_words_alone(world: World) -> None:
    world.ask(says(GOOD))
    assert "response_format" not in world.server.requests[0].body


def test_a_provider_that_refuses_the_schema_is_asked_in_words(world: World) -> None:
    llm = world.llm(structured="native")
    world.server.add([fails(400, "invalid schema for response_format"), says(GOOD), says(GOOD)])
    for attempt in range(2):
        assert llm.ask("tool", VARIABLES, ToolReply, subject="s", attempt=attempt) == ToolReply(**GOOD)
    assert ["response_format" in request.body for request in world.server.requests] == [True, False, False]


# --- stopping -------------------------------------------------------------------------------------------------------


def test_stopping_lets_calls_in_flight_end_and_begins_none(world: World) -> None:
    world.server.add([says(GOOD, stall=True)])
    llm = world.llm()
    results: list[ToolReply] = []
    flying = threading.Thread(
        target=lambda: results.append(llm.ask("tool", VARIABLES, ToolReply, subject="s", attempt=0))
    )
    flying.start()
    while not world.server.requests:
        pass
    llm.stop()
    with pytest.raises(Stopping, match="nothing is paid twice"):
        llm.ask("tool", VARIABLES, ToolReply, subject="s", attempt=1)
    world.server.release.set()
    flying.join(30)
    assert results == [ToolReply(**GOOD)]
    assert [fact.origin for fact in world.ledger.find(ModelCallFact)] == ["live"]


@pytest.mark.parametrize("trouble", ["dead", "bad key"])
def test_one_bad_deployment_of_two_fails_no_call(world: World, other: LLMServer, trouble: str) -> None:
    other.add([says(GOOD)] * 40)
    world.server.add([fails(401, "wrong key")] * 40)
    bad = at(world.server) if trouble == "bad key" else Deployment(model="openai/m", api_base="http://127.0.0.1:1/v1")
    llm = world.llm_of(table(ModelSpec(name="a", deployments=(bad.model_copy(update={"weight": 9.0}), at(other)))))
    for attempt in range(20):
        assert llm.ask("tool", VARIABLES, ToolReply, subject="s", attempt=attempt) == ToolReply(**GOOD)
    assert len(other.requests) == 20
    assert len(world.server.requests) <= 3


def test_a_single_deployment_keeps_its_limit_too(world: World) -> None:
    world.server.add([says(GOOD)] * 20)
    llm = world.llm_of(table(ModelSpec(name="a", deployments=(at(world.server, rpm=3),))), retries=0)
    refused = []
    for attempt in range(10):
        try:
            llm.ask("tool", VARIABLES, ToolReply, subject="s", attempt=attempt)
        except LLMError as error:
            refused.append(error)
    assert len(world.server.requests) <= 6
    assert len(refused) == 10 - len(world.server.requests)
    assert all(error.transient for error in refused)


@pytest.mark.parametrize(
    "trouble", [fails(404, "no such model"), fails(402, "pay first"), fails(429, "empty", code="insufficient_quota")]
)
def test_a_model_that_is_not_there_or_not_paid_for_is_replaced_by_its_fall_back(
    world: World, other: LLMServer, trouble: Answer
) -> None:
    world.server.add([trouble])
    other.add([says(GOOD)])
    models = table(
        ModelSpec(name="a", deployments=(at(world.server),), fallbacks=("b",)),
        ModelSpec(name="b", deployments=(at(other),)),
    )
    assert world.llm_of(models).ask("tool", VARIABLES, ToolReply, subject="s") == ToolReply(**GOOD)


def test_a_process_has_one_purse_whatever_opens_its_ports(world: World) -> None:
    world.server.add([says(GOOD)] * 5)
    purse, budgets = Purse(), Budgets(run=1.5 * COST)
    for attempt in range(2):
        llm = world.llm(price=PRICE, budgets=budgets, purse=purse)
        llm.ask("tool", VARIABLES, ToolReply, subject="s", attempt=attempt)
    with pytest.raises(BudgetExceeded):
        world.llm(price=PRICE, budgets=budgets, purse=purse).ask("tool", VARIABLES, ToolReply, subject="s", attempt=2)


def test_a_budget_without_a_price_is_refused_without_a_probe_too(world: World) -> None:
    with pytest.raises(ConfigError, match="price of openai/m is not known"):
        world.llm(budgets=Budgets(seed=1)).ask("tool", VARIABLES, ToolReply, subject="s")
    assert world.server.requests == []


def test_what_was_paid_is_in_the_books_though_the_tape_cannot_be_written(world: World, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    world.server.add([says(GOOD)])
    with pytest.raises(ConfigError):
        world.llm(price=PRICE, record=tmp_path / "file" / "tape").ask("tool", VARIABLES, ToolReply, subject="s")
    assert world.ledger.total(ModelCallFact, "cost") == pytest.approx(COST)


def test_stopping_ends_a_wait_between_two_tries(world: World) -> None:
    world.server.add([fails(429, retry_after="300"), says(GOOD)])
    llm = world.llm(sleep=None)
    failures: list[BaseException] = []

    def ask_it() -> None:
        try:
            llm.ask("tool", VARIABLES, ToolReply, subject="s")
        except Stopping as error:
            failures.append(error)

    waiting = threading.Thread(target=ask_it)
    waiting.start()
    while not world.server.requests:
        pass
    llm.stop()
    waiting.join(30)
    assert len(failures) == 1
    assert len(world.server.requests) == 1


@pytest.mark.parametrize("count", [-1000, 10**25, "many", None])
def test_a_count_of_tokens_that_makes_no_sense_is_bounded(world: World, count: object) -> None:
    answer = json.loads(says(GOOD).body)
    answer["usage"] = {"prompt_tokens": count, "completion_tokens": count, "total_tokens": count}
    try:
        world.ask(Answer(json.dumps(answer).encode()), price=PRICE, retries=0)
    except LLMError:
        return
    (call,) = world.calls()
    assert 0 < call.prompt_tokens <= 2**31
    assert call.cost is not None
    assert call.cost > 0


def test_keys_of_other_providers_are_scrubbed_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOGETHERAI_API_KEY", "odd-looking-secret-1")
    with pytest.raises(LLMError) as caught:
        world.ask(fails(400, "you sent odd-looking-secret-1"))
    assert "odd-looking" not in str(caught.value)
