"""Quarantine, retry, rejected and audit: the real command over a ledger of certified and rejected tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from benchmarks.review import World, key
from facet_dagster.adapters.ledger_migrations import MIGRATIONS
from facet_dagster.adapters.postgres_ledger import PostgresLedger
from facet_dagster.connect import open_ledger, open_store
from facet_dagster.domain.facts import AttemptFact, CheckFact, StageFact, TrialFact
from facet_dagster.settings import Settings
from tests.conftest import Databases
from tests.e2e.conftest import Installation, installation

pytestmark = pytest.mark.postgres
SEEDS = 6  # the first two are rejected


@pytest.fixture(scope="module")
def home(databases: Databases) -> Iterator[Installation]:
    url = databases.new_migrated()
    for made in installation(FACET_POSTGRES_URL=url):
        settings = Settings(home=made.home, postgres_url=url, certificate="basic")
        world = World(settings, open_store(settings), 10)  # type: ignore[arg-type]
        open_ledger(settings).append(fact for n in range(SEEDS) for fact in world.facts(n, lost=n < 2))
        yield made
    databases.drop(url)


def test_a_quarantined_task_is_in_no_list_until_it_is_let_back_in(home: Installation, tmp_path: Path) -> None:
    certified = sorted(key(n) for n in range(2, SEEDS))
    assert [line["key"] for line in home.json("tasks")] == certified
    assert "--note" in home.call("quarantine", certified[0]).stderr
    (decision,) = home.json("quarantine", certified[0][:14], "--note", "wrong unit", "--by", "Ada")
    assert (decision["key"], decision["note"], decision["name"]) == (certified[0], "wrong unit", "Ada")
    assert "already in quarantine" in home.call("quarantine", certified[0], "--note", "again").stderr
    done = home.call("tasks", "--json")
    assert certified[0] not in done.stdout
    assert "1 certified task is in quarantine and left out" in done.stderr
    told = home.call("why", certified[0]).stdout
    assert "quarantine by Ada" in told
    assert "wrong unit" in told
    assert home.json("quarantine", certified[0], "--lift", "--note", "mended") == []
    assert [line["key"] for line in home.json("tasks")] == certified
    kinds = [one["kind"] for one in home.json("why", certified[0])["decisions"]]
    assert kinds == ["quarantine", "lifted"]


def test_rejected_seeds_are_listed_with_reason_cost_and_evidence(home: Installation) -> None:
    found = home.json("rejected")
    assert [one["key"] for one in found] == sorted(key(n) for n in range(2))
    assert {one["stage"] for one in found} == {"task"}
    assert {one["evidence"] for one in found} == {"line"}
    assert all(one["cost"] == pytest.approx(0.07) for one in found), "seven stages with one call each"
    assert home.json("rejected", "--reason", found[0]["reason"])[0]["key"] == found[0]["key"]
    assert home.json("rejected", "--family", "no such family") == []
    assert "2 rejected" in home.call("rejected").stdout


def test_a_retry_is_asked_for_once_and_shown(home: Installation) -> None:
    (asked,) = home.json("retry", key(0), "--note", "bad luck")
    assert (asked["stage"], asked["round"], asked["waiting"]) == ("task", 1, False)
    done = home.call("retry", key(0))
    assert "waits already" in done.stdout
    assert "replays a tape" in done.stdout
    assert [one["key"] for one in home.json("rejected")] == [key(1)], "it has no verdict until it is computed"
    told = home.json("why", key(0))
    assert told["decisions"][0]["kind"] == "retry of task"
    assert [(other["stage"], other["verdict"]) for other in told["others"]] == [("task", "rejected")]
    for arguments, problem in (
        (("retry", key(2)), "no rejection"),
        (("retry", key(2), "--stage", "tasks"), "There is no stage 'tasks'"),
        (("retry", "folder-"), "beginning of"),
        (("retry", "nothing"), "Nothing has the id"),
    ):
        failed = home.call(*arguments)
        assert failed.returncode == 1
        assert problem in failed.stderr or "Nothing has the id" in failed.stderr


def test_an_audit_gates_a_release(home: Installation) -> None:
    drawn = home.json("audit", "sample", "-n", "3", "--number", "5")
    assert len(drawn) == 3
    assert "--defect" in home.call("audit", "record", drawn[0]["key"], "--defect").stderr
    home.call("audit", "record", drawn[0]["key"], "--defect", "--note", "the date is ambiguous")
    assert home.call("audit", "report", "--max-rate", "1").returncode == 1, "two have no verdict yet"
    for one in drawn[1:]:
        assert home.call("audit", "record", one["key"], "--ok").returncode == 0
    found = home.json("audit", "report")
    assert (found["plain"]["count"], found["plain"]["of"], found["open"]) == (1, 3, [])
    assert home.call("audit", "report", "--max-rate", "0.01").returncode == 1
    assert home.call("audit", "report", "--max-rate", "1").returncode == 0


def test_rows_of_an_older_ledger_are_given_to_the_result_that_they_belong_to(databases: Databases) -> None:
    url = databases.new()
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0003")
        _old(connection)
    ledger = PostgresLedger(url)
    try:
        ledger.migrate()
        assert [(f.round, f.input_digest) for f in ledger.find(AttemptFact)] == [(0, "d1"), (1, "d2"), (2, "")]
        (trial,) = ledger.find(TrialFact)
        assert trial.input_digest == "d2"
        assert [check.check for check in ledger.find(CheckFact, trial=trial.fact_id)] == ["C1"]
        assert [fact.under for fact in ledger.find(StageFact)] == ["", ""]
    finally:
        ledger.close()
        databases.drop(url)


def _old(connection: sa.Connection) -> None:
    def add(table: str, seq: int, **row: object) -> None:
        names, row = (*row, "seq"), {**row, "seq": seq}
        text = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(':' + name for name in names)})"
        connection.execute(sa.text(text), row)

    both = {"stage": "task", "key": "k"}
    trial = TrialFact(kind="oracle", draft="d", round=1, repeat=0, reward=1, exit_code=0, seconds=1.0, **both)
    for number, seq in ((0, 1), (1, 3), (2, 9)):
        add("attempts", seq, id=f"a{number}", kind="r", round=number, ok=True, component="", summary="", **both)
    for number, seq in ((1, 2), (2, 6)):
        texts = {"verdict": "accepted", "reason": "", "component": "", "rejected_at": ""}
        result = f'{{"stage": "task", "key": "k", "input_digest": "d{number}", "verdict": "accepted"}}'
        add("stages", seq, id=f"s{number}", input_digest=f"d{number}", result=result, **texts, **both)
    add("trials", 4, id=trial.fact_id, **trial.model_dump(exclude={"input_digest"}))
    check = {"check": "C1", "requirement": "R1", "status": "pass", "message": ""}
    connection.execute(
        sa.text(
            'INSERT INTO checks (id, trial, "check", requirement, status, message, seq)'
            " VALUES ('c', :trial, :check, :requirement, :status, :message, 5)"
        ),
        {"trial": trial.fact_id, **check},
    )
