"""One suite on every Ledger, then what only PostgreSQL promises."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
import time
import types
import typing
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy.dialects.postgresql import JSONB

from facet_dagster.adapters.ledger_tables import ROWS, Base, table_of
from facet_dagster.adapters.memory import MemoryLedger
from facet_dagster.adapters.postgres_ledger import PostgresLedger
from facet_dagster.domain.facts import (
    FACTS,
    ArtifactFact,
    EdgeFact,
    Fact,
    RawSkillFact,
    StageFact,
    TrialFact,
)
from facet_dagster.domain.outcome import Reason, StageResult, Verdict, reject
from facet_dagster.errors import InvariantError, LedgerError
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


def unstorable(key: str) -> StageFact:
    """JSON has no NaN."""
    fact = stage_fact(key)
    return fact.model_copy(update={"result": fact.result.model_copy(update={"numbers": {"rate": float("nan")}})})


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
    ({"key": {"k2", "absent"}}, [2]),
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


# What follows is PostgreSQL's own.

HOLDER = """
    import sys, time
    from facet_dagster.adapters.postgres_ledger import PostgresLedger
    with PostgresLedger(sys.argv[1]).claim(sys.argv[2]):
        print("held", flush=True)
        time.sleep(600)
"""


@pytest.fixture
def holder(ledger_url: str) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Starts processes that hold a claim, and returns once they do."""
    started: list[subprocess.Popen[str]] = []

    def start(name: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", textwrap.dedent(HOLDER), ledger_url, name]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.postgres
def test_a_claim_of_another_process_excludes_until_it_is_killed(
    postgres_ledger: PostgresLedger, holder: Callable[[str], subprocess.Popen[str]]
) -> None:
    process = holder("stage/k1")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(_claimed, postgres_ledger, "stage/k1")
        _until_blocked(postgres_ledger)
        assert _claimed(postgres_ledger, "stage/k2")
        assert not waiting.done()
        process.send_signal(signal.SIGKILL)
        assert waiting.result(timeout=60)


def _until_blocked(ledger: PostgresLedger) -> None:
    """Wait until the database itself says that somebody waits for an advisory lock."""
    waits = sa.text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'"
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with ledger._engine.connect() as connection:
            if connection.execute(waits).scalar_one():
                return
        time.sleep(0.02)
    pytest.fail("nobody waits for the claim")


@pytest.mark.postgres
def test_a_claim_whose_session_is_cut_ends_quietly(postgres_ledger: PostgresLedger) -> None:
    with postgres_ledger.claim("name"):
        _cut_other_sessions(postgres_ledger)
    assert _claimed(postgres_ledger, "name")


def _cut_other_sessions(ledger: PostgresLedger) -> None:
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    cut = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}"
    with ledger._engine.connect() as connection:
        connection.execute(sa.text(cut))


@pytest.mark.postgres
def test_a_pooled_connection_that_was_cut_is_replaced(postgres_ledger: PostgresLedger, ledger_url: str) -> None:
    postgres_ledger.append([artifact(1)])
    other = PostgresLedger(ledger_url)
    _cut_other_sessions(other)
    other.close()
    assert postgres_ledger.find(ArtifactFact) == [artifact(1)]


@pytest.mark.postgres
def test_append_is_all_or_none(postgres_ledger: PostgresLedger) -> None:
    with pytest.raises(LedgerError) as caught:
        postgres_ledger.append([artifact(1), stage_fact("good"), unstorable("bad")])
    assert not caught.value.transient
    assert postgres_ledger.find(ArtifactFact) == []
    assert postgres_ledger.find(StageFact) == []


@pytest.mark.postgres
def test_text_that_postgres_cannot_hold_is_mended(postgres_ledger: PostgresLedger) -> None:
    fact = RawSkillFact(skill="a\0b", bucket="00", value={"te\0xt": ["x\0y", {"deep": "\0\ud800"}]})
    postgres_ledger.append([fact])
    postgres_ledger.append([fact])
    (found,) = postgres_ledger.find(RawSkillFact, skill="a\0b")
    assert found == RawSkillFact(skill="ab", bucket="00", value={"text": ["xy", {"deep": "?"}]})


@pytest.mark.postgres
def test_an_unknown_column_is_a_bug_of_the_caller(postgres_ledger: PostgresLedger) -> None:
    with pytest.raises(InvariantError, match="ArtifactFact has no column colour"):
        postgres_ledger.find(ArtifactFact, colour="red")


@pytest.mark.postgres
def test_a_database_without_tables_says_what_to_do(postgres_url: str) -> None:
    ledger = PostgresLedger(postgres_url)
    with pytest.raises(LedgerError, match="run the set-up") as caught:
        ledger.find(ArtifactFact)
    ledger.close()
    assert not caught.value.transient


def test_an_unreachable_server_is_transient_and_keeps_the_password() -> None:
    ledger = PostgresLedger("postgresql://bob:secret@127.0.0.1:1/facet")
    for call in (lambda: ledger.find(ArtifactFact), lambda: ledger.append([artifact(1)]), ledger.migrate):
        with pytest.raises(LedgerError, match=r"127\.0\.0\.1:1/facet.*Check that the server runs") as caught:
            call()
        assert caught.value.transient
        assert "secret" not in str(caught.value)


@pytest.mark.postgres
def test_the_text_of_a_fact_is_not_in_the_error(postgres_ledger: PostgresLedger) -> None:
    with pytest.raises(LedgerError) as caught:
        postgres_ledger.append([unstorable("private words")])
    assert "private words" not in f"{caught.value} {caught.value.__cause__}"


@pytest.mark.postgres
def test_migrations_make_what_the_models_say(ledger_url: str) -> None:
    engine = sa.create_engine(ledger_url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"version_table": "ledger_version", "compare_type": True, "compare_server_default": True}
        )
        assert compare_metadata(context, Base.metadata) == []
        assert sa.inspect(connection).get_sequence_names() == ["fact_seq"]


@pytest.mark.postgres
def test_many_may_migrate_at_once_and_again(postgres_url: str) -> None:
    ledgers = [PostgresLedger(postgres_url) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(PostgresLedger.migrate, ledgers))
    ledgers[0].migrate()
    ledgers[0].append([artifact(1)])
    ledgers[1].migrate()
    assert ledgers[2].find(ArtifactFact) == [artifact(1)]
    for ledger in ledgers:
        ledger.close()


def test_every_fact_class_has_one_table() -> None:
    assert set(ROWS) == set(FACTS)
    assert len({table_of(kind).name for kind in FACTS}) == len(FACTS)


TYPES: dict[Any, type[Any]] = {str: sa.Text, int: sa.BigInteger, float: sa.Double, bool: sa.Boolean, Verdict: sa.Text}


@pytest.mark.parametrize("kind", FACTS, ids=lambda kind: kind.__name__)
def test_columns_are_the_fields_of_the_fact(kind: type[Fact]) -> None:
    columns = {c.name: c for c in table_of(kind).columns if c.name not in ("id", "seq", "at")}
    assert set(columns) == set(kind.model_fields)
    for name, field in kind.model_fields.items():
        parts = [part for part in typing.get_args(field.annotation) if isinstance(field.annotation, types.UnionType)]
        inner = next((part for part in parts if part is not type(None)), field.annotation)
        assert columns[name].nullable == (type(None) in parts), name
        assert type(columns[name].type) is TYPES.get(inner, JSONB), name


@pytest.mark.postgres
def test_ten_thousand_facts_in_one_append(
    postgres_ledger: PostgresLedger, record_property: Callable[[str, object], None]
) -> None:
    facts = [artifact(n) for n in range(10_000)]
    began = time.perf_counter()
    postgres_ledger.append(facts)
    record_property("append_10k_seconds", round(time.perf_counter() - began, 2))
    print(f"append of 10,000 facts: {time.perf_counter() - began:.2f} s")
    began = time.perf_counter()
    assert postgres_ledger.find(ArtifactFact) == facts
    print(f"find of 10,000 facts: {time.perf_counter() - began:.2f} s")
