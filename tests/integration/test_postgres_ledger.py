"""What PostgreSQL's ledger promises beyond the common contract: processes, crashes, errors, schema."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
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
from facet_dagster.adapters.postgres_ledger import PostgresLedger
from facet_dagster.domain.facts import FACTS, ArtifactFact, Fact, RawSkillFact, StageFact
from facet_dagster.domain.outcome import StageResult, Verdict
from facet_dagster.errors import InvariantError, LedgerError


def artifact(number: int, kind: str = "note") -> ArtifactFact:
    return ArtifactFact(sha256=f"{number:064x}", kind=kind, size=number)


def stage_fact(key: str, **result: Any) -> StageFact:
    made = StageResult(stage="task", key=key, input_digest="d", verdict=Verdict.ACCEPTED, **result)
    return StageFact(stage="task", key=key, input_digest="d", verdict=made.verdict, result=made)


def unstorable(key: str) -> StageFact:
    """JSON has no NaN."""
    return stage_fact(key, numbers={"rate": float("nan")})


def _claimed(ledger: PostgresLedger, name: str) -> bool:
    with ledger.claim(name):
        return True


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
    assert "private words" not in str(caught.value)


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
