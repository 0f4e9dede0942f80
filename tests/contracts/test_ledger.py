"""One suite on every Ledger."""

from __future__ import annotations

import threading
import time
import types
import typing
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from facet_dagster.adapters.memory import MemoryLedger
from facet_dagster.adapters.postgres_ledger import PostgresLedger
from facet_dagster.domain.facts import (
    FACTS,
    ArtifactFact,
    EdgeFact,
    Fact,
    ReplyFact,
    StageFact,
    TrialFact,
)
from facet_dagster.domain.outcome import Reason, StageResult, Verdict, reject
from facet_dagster.errors import Held, InvariantError
from facet_dagster.ports import Ledger


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.postgres)])
def ledger(request: pytest.FixtureRequest) -> Ledger:
    if request.param == "memory":
        return MemoryLedger()
    found: PostgresLedger = request.getfixturevalue("postgres_ledger")
    return found


def artifact(number: int, kind: str = "note") -> ArtifactFact:
    return ArtifactFact(sha256=f"{number:064x}", kind=kind, size=number)


def trial(repeat: int, **changes: Any) -> TrialFact:
    values: dict[str, Any] = {"stage": "task", "key": "k1", "kind": "oracle", "draft": "d", "round": 0}
    values |= {"repeat": repeat, "reward": 1, "exit_code": 0, "seconds": 0.5}
    return TrialFact(**{**values, **changes})


def stage_fact(key: str, *, digest: str = "d1") -> StageFact:
    rejection = reject(Reason.TASK_FLAKY, "Two of three", runs=[1, None, {"a": True}])
    result = StageResult(
        stage="task",
        key=key,
        input_digest=digest,
        verdict=Verdict.REJECTED,
        rejection=rejection,
        rejected_at="task",
        numbers={"rounds": 2.0, "checks": 11.0},
        seconds=0.125,
    )
    return StageFact(
        stage="task", key=key, input_digest=digest, verdict=Verdict.REJECTED, reason=rejection.reason, result=result
    )


def edges(*pairs: str) -> list[EdgeFact]:
    """``"b<a"``: b was made from a."""
    return [EdgeFact(child=pair[0], parent=pair[2], kind="made") for pair in pairs]


def sample(kind: type[Fact]) -> Fact:
    """A fact with a value of the right type in every field, whatever fields it has."""
    return kind.model_validate({name: _value(field.annotation, name) for name, field in kind.model_fields.items()})


def _value(annotation: Any, name: str) -> Any:
    if annotation is StageResult:
        return stage_fact("k").result
    if annotation is Verdict:
        return Verdict.ACCEPTED
    origin = typing.get_origin(annotation) or annotation
    if origin in (typing.Union, types.UnionType):
        return None
    plain = {str: f"{name} – ü'\"\\", int: 7, float: 0.1, bool: True, dict: {"a": [1, None]}, list: ["x", "y"]}
    return plain.get(origin, ["x", "y"])


@pytest.mark.parametrize("kind", FACTS, ids=lambda kind: kind.__name__)
def test_every_fact_comes_back_as_it_was(ledger: Ledger, kind: type[Fact]) -> None:
    fact = sample(kind)
    ledger.append([fact])
    assert ledger.find(kind) == [fact]
    assert ledger.find(kind)[0].fact_id == fact.fact_id


def test_a_new_ledger_holds_nothing(ledger: Ledger) -> None:
    assert [ledger.find(kind) for kind in FACTS] == [[] for _ in FACTS]


def test_appending_nothing_is_fine(ledger: Ledger) -> None:
    ledger.append([])
    assert ledger.find(ArtifactFact) == []


def test_append_takes_any_iterable(ledger: Ledger) -> None:
    ledger.append(artifact(n) for n in range(3))
    assert len(ledger.find(ArtifactFact)) == 3


def test_facts_come_in_the_order_of_appending(ledger: Ledger) -> None:
    order = [5, 3, 9, 1, 7]
    ledger.append([artifact(n) for n in order])
    ledger.append([artifact(n) for n in (8, 2)])
    assert [fact.size for fact in ledger.find(ArtifactFact)] == [*order, 8, 2]


def test_the_first_of_two_facts_with_one_id_stays(ledger: Ledger) -> None:
    ledger.append([artifact(1, "first")])
    ledger.append([artifact(1, "second"), artifact(2, "other")])
    assert [fact.kind for fact in ledger.find(ArtifactFact)] == ["first", "other"]


def test_the_first_stays_within_one_append(ledger: Ledger) -> None:
    ledger.append([artifact(1, "first"), artifact(1, "second"), artifact(2), artifact(1, "third")])
    assert [fact.kind for fact in ledger.find(ArtifactFact)] == ["first", "note"]


def test_facts_of_several_classes_go_in_together(ledger: Ledger) -> None:
    ledger.append([artifact(1), *edges("b<a"), trial(0), artifact(2)])
    assert [len(ledger.find(kind)) for kind in (ArtifactFact, EdgeFact, TrialFact)] == [2, 1, 1]


FIND: list[tuple[dict[str, Any], list[int]]] = [
    ({}, [0, 1, 2, 3]),
    ({"key": "k1"}, [0, 1]),
    ({"key": "k1", "repeat": 1}, [1]),
    ({"key": ["k2", "k1"]}, [0, 1, 2]),
    ({"key": {"k2"}}, [2]),
    ({"repeat": (0, 3)}, [0, 3]),
    ({"key": []}, []),
    ({"key": "absent"}, []),
    ({"reward": None}, [2]),
    ({"reward": [None, 0]}, [2, 3]),
    ({"reward": [1]}, [0, 1]),
    ({"seconds": 0.5}, [0, 1, 2, 3]),
]


@pytest.mark.parametrize(("where", "repeats"), FIND, ids=[str(where) for where, _ in FIND])
def test_find_is_equality_and_lists_mean_in(ledger: Ledger, where: dict[str, Any], repeats: list[int]) -> None:
    ledger.append([trial(0), trial(1), trial(2, key="k2", reward=None), trial(3, key="k3", reward=0)])
    assert [fact.repeat for fact in ledger.find(TrialFact, **where)] == repeats


def test_find_takes_enums_and_a_long_list(ledger: Ledger) -> None:
    ledger.append([stage_fact(f"k{n}") for n in range(20)])
    keys = [f"k{n}" for n in range(7, 5000)]
    found = ledger.find(StageFact, verdict=Verdict.REJECTED, reason=[Reason.TASK_FLAKY], key=keys)
    assert [fact.key for fact in found] == [f"k{n}" for n in range(7, 20)]
    assert ledger.find(StageFact, verdict=Verdict.ACCEPTED) == []


def reply(number: int, model: str = "m") -> ReplyFact:
    values = {"call": "judge", "model": model, "reply": "r", "prompt_tokens": 1, "completion_tokens": 1}
    return ReplyFact(cache_key=str(number), cost=0.5 if number else None, **values)


def test_a_total_is_the_sum_over_what_find_gives(ledger: Ledger) -> None:
    assert ledger.total(ReplyFact, "cost") == 0
    ledger.append([reply(0), reply(1), reply(2), reply(3, "n")])
    assert ledger.total(ReplyFact, "cost") == pytest.approx(1.5)
    assert ledger.total(ReplyFact, "cost", model="n") == pytest.approx(0.5)
    assert ledger.total(ReplyFact, "cost", cache_key=["1", "2", "9"]) == pytest.approx(1.0)


def test_a_cache_can_be_evicted_and_filled_again(ledger: Ledger) -> None:
    ledger.append([reply(1), reply(2), reply(3, "n")])
    assert ledger.evict(ReplyFact, before=datetime.now(UTC) - timedelta(hours=1)) == 0
    assert ledger.evict(ReplyFact, model="m", before=datetime.now(UTC) + timedelta(hours=1)) == 2
    assert ledger.find(ReplyFact) == [reply(3, "n")]
    ledger.append([reply(1)])
    assert ledger.find(ReplyFact) == [reply(3, "n"), reply(1)]
    assert ledger.evict(ReplyFact) == 2


@pytest.mark.parametrize("kind", [kind for kind in FACTS if kind is not ReplyFact], ids=lambda kind: kind.__name__)
def test_lineage_is_never_forgotten(ledger: Ledger, kind: type[Fact]) -> None:
    with pytest.raises(InvariantError, match="lineage"):
        ledger.evict(kind)


def test_one_key_has_a_result_for_each_input(ledger: Ledger) -> None:
    ledger.append([stage_fact("k", digest="d1"), stage_fact("k", digest="d2")])
    assert [f.input_digest for f in ledger.find(StageFact, stage="task", key="k", input_digest="d2")] == ["d2"]


def test_ancestors_of_a_source_are_none(ledger: Ledger) -> None:
    ledger.append(edges("b<a"))
    assert ledger.ancestors("a") == []
    assert ledger.ancestors("unknown") == []


WALKS: list[tuple[str, list[str], list[tuple[int, str]]]] = [
    ("chain", ["d<c", "c<b", "b<a", "x<b"], [(1, "d<c"), (2, "c<b"), (3, "b<a")]),
    ("diamond", ["d<b", "d<c", "b<a", "c<a", "a<z"], [(1, "d<b"), (1, "d<c"), (2, "b<a"), (2, "c<a"), (3, "a<z")]),
    ("long and short way", ["d<a", "d<c", "c<b", "b<a"], [(1, "d<a"), (1, "d<c"), (2, "c<b"), (3, "b<a")]),
    ("cycle", ["d<c", "c<b", "b<d"], [(1, "d<c"), (2, "c<b"), (3, "b<d")]),
    ("itself", ["d<d", "d<a"], [(1, "d<d"), (1, "d<a")]),
    ("cycle above", ["d<c", "c<b", "b<c", "b<a"], [(1, "d<c"), (2, "c<b"), (3, "b<c"), (3, "b<a")]),
    ("appending order", ["d<z", "d<m", "d<a"], [(1, "d<z"), (1, "d<m"), (1, "d<a")]),
]


@pytest.mark.parametrize(("pairs", "wanted"), [walk[1:] for walk in WALKS], ids=[walk[0] for walk in WALKS])
def test_ancestors_give_each_edge_once_nearest_first(
    ledger: Ledger, pairs: list[str], wanted: list[tuple[int, str]]
) -> None:
    ledger.append(edges(*pairs))
    assert ledger.ancestors("d") == [(depth, pair[0], pair[2], "made") for depth, pair in wanted]


def test_ancestors_of_many_diamonds_stay_countable(ledger: Ledger) -> None:
    """A walk over paths instead of edges would need 2**40 steps here."""
    layers = [
        EdgeFact(child=f"{side}{n}", parent=f"{other}{n + 1}", kind="made")
        for n in range(40)
        for side in "ab"
        for other in "ab"
    ]
    ledger.append(layers)
    found = ledger.ancestors("a0")
    assert len(found) == len(layers) - 2
    assert found[-1][0] == 40


def test_one_name_is_held_by_one_thread_at_a_time(ledger: Ledger) -> None:
    inside, most = 0, 0
    guard = threading.Lock()

    def work(_: int) -> None:
        nonlocal inside, most
        with ledger.claim("same"):
            with guard:
                inside += 1
                most = max(most, inside)
            time.sleep(0.01)
            with guard:
                inside -= 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert most == 1


def test_different_names_do_not_wait_for_each_other(ledger: Ledger) -> None:
    with ledger.claim("one"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(_claimed, ledger, "two").result(timeout=60)


def test_a_claim_ends_when_its_body_raises(ledger: Ledger) -> None:
    with pytest.raises(ZeroDivisionError), ledger.claim("name"):
        _ = 1 / 0
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(_claimed, ledger, "name").result(timeout=60)


def _claimed(ledger: Ledger, name: str) -> bool:
    with ledger.claim(name):
        return True


def test_the_ledger_is_usable_inside_many_claims(ledger: Ledger) -> None:
    """More claims at once than pooled connections: claims must not starve append and find."""
    everybody = threading.Barrier(40)

    def work(number: int) -> int:
        with ledger.claim(f"name {number}"):
            everybody.wait(timeout=60)
            ledger.append([artifact(number)])
            return len(ledger.find(ArtifactFact, size=number))

    with ThreadPoolExecutor(40) as pool:
        assert list(pool.map(work, range(40))) == [1] * 40


def test_concurrent_appends_of_the_same_facts_in_any_order(ledger: Ledger) -> None:
    facts: list[Fact] = [*(artifact(n) for n in range(300)), *(trial(n) for n in range(300))]

    def work(number: int) -> None:
        ledger.append(facts if number % 2 else reversed(facts))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert {fact.size for fact in ledger.find(ArtifactFact)} == set(range(300))
    assert len(ledger.find(ArtifactFact)) == len(ledger.find(TrialFact)) == 300


def test_plain_values_of_some_columns_come_in_the_order_of_appending(ledger: Ledger) -> None:
    ledger.append([artifact(3), artifact(1, "other"), artifact(2)])
    assert ledger.values(ArtifactFact, "kind", "size") == [("note", 3), ("other", 1), ("note", 2)]
    assert ledger.values(ArtifactFact, "size", size=[2, 3]) == [(3,), (2,)]
    assert ledger.values(TrialFact, "key") == []


def test_a_claim_that_is_not_waited_for_is_refused_while_it_is_held(ledger: Ledger) -> None:
    def ask() -> bool:
        with ledger.claim("night", wait=False):
            return True

    with ledger.claim("night"), ThreadPoolExecutor(1) as pool, pytest.raises(Held):
        pool.submit(ask).result(timeout=60)
    assert ask()
    assert ask()
