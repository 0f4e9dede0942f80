"""Backup, restore and tidy, with real databases and files."""

from __future__ import annotations

import io
import json
import os
import tarfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from facet_dagster.adapters.fsspec_artifact_store import FsspecArtifactStore
from facet_dagster.adapters.ledger_copy import LedgerCopy
from facet_dagster.adapters.ledger_migrations import upgrade
from facet_dagster.adapters.ledger_tables import ROWS
from facet_dagster.adapters.postgres_ledger import PostgresLedger
from facet_dagster.domain.facts import ArtifactFact, AttemptFact, EdgeFact, Fact, ModelCallFact
from facet_dagster.errors import ConfigError, LedgerError
from facet_dagster.upkeep.backup import backup, restore
from facet_dagster.upkeep.tidy import DAY, tidy
from tests.e2e.conftest import ROOT, Installation, installation

pytestmark = pytest.mark.postgres
ODD = 'tab\t newline\n back\\slash "quote" ü \\N \\.'


@pytest.fixture
def store(tmp_path: Path) -> FsspecArtifactStore:
    return FsspecArtifactStore(str(tmp_path / "artifacts"))


@pytest.fixture
def other(tmp_path: Path) -> FsspecArtifactStore:
    return FsspecArtifactStore(str(tmp_path / "other"))


@pytest.fixture
def filled(ledger_url: str, store: FsspecArtifactStore) -> str:
    """A ledger with a few rows, and their artifacts."""
    attempt = AttemptFact(
        stage="s", key="k", kind="draft", round=0, ok=False, summary=ODD, artifact=store.put(b"draft")
    )
    with closing(PostgresLedger(ledger_url)) as ledger:
        ledger.append(
            [attempt, artifact(store, b"one"), artifact(store, b"two"), EdgeFact(child="a", parent="b", kind="c")]
        )
    return ledger_url


def artifact(store: FsspecArtifactStore, data: bytes) -> ArtifactFact:
    return ArtifactFact(sha256=store.put(data), kind="note", size=len(data))


def facts(url: str) -> dict[type[Fact], list[Fact]]:
    with closing(PostgresLedger(url)) as ledger:
        return {kind: ledger.find(kind) for kind in ROWS}


def age(store: FsspecArtifactStore, sha: str, days: float) -> None:
    moment = time.time() - days * DAY
    os.utime(store._path(sha), (moment, moment))


def test_what_comes_back_is_what_was_there(
    filled: str, postgres_url: str, store: FsspecArtifactStore, other: FsspecArtifactStore, tmp_path: Path
) -> None:
    file, whole = backup(LedgerCopy(filled), store, tmp_path)
    assert (whole.rows, whole.artifacts, whole.unread) == (4, 3, ())
    assert [path.name for path in tmp_path.glob("*.tar.gz")] == [file.name]
    assert restore(file, LedgerCopy(postgres_url), other, tmp_path) == whole
    assert facts(postgres_url) == facts(filled)
    assert {blob.sha256 for blob in other.each()} == {blob.sha256 for blob in store.each()}
    assert [other.get(blob.sha256) for blob in other.each()]
    with closing(PostgresLedger(postgres_url)) as ledger:
        ledger.append([EdgeFact(child="new", parent="b", kind="c")])
        assert [fact.child for fact in ledger.find(EdgeFact)] == ["a", "new"], "the numbers go on"


def test_rows_that_come_meanwhile_are_not_half_in_it(filled: str, store: FsspecArtifactStore, tmp_path: Path) -> None:
    with LedgerCopy(filled).snapshot() as snapshot:
        with closing(PostgresLedger(filled)) as ledger:
            ledger.append([artifact(store, b"late"), EdgeFact(child="late", parent="b", kind="c")])
        rows = io.BytesIO()
        assert snapshot.copy("edges", rows) == 1
        assert len(snapshot.artifacts()) == 2


def test_a_restore_into_a_ledger_with_rows_is_refused(filled: str, store: FsspecArtifactStore, tmp_path: Path) -> None:
    file, _ = backup(LedgerCopy(filled), store, tmp_path / "b.tar.gz")
    with pytest.raises(ConfigError, match=r"is not empty .*FACET_HOME"):
        restore(file, LedgerCopy(filled), store, tmp_path)


def test_a_backup_of_an_older_version_is_migrated(
    databases: Any, store: FsspecArtifactStore, ledger_url: str, tmp_path: Path
) -> None:
    url = databases.new()
    call = {
        "call": "judge",
        "cache_key": "c",
        "tape_key": "t",
        "subject": "s",
        "attempt": 0,
        "turn": 0,
        "origin": "tape",
    }
    call |= {"model": "m", "prompt_tokens": 1, "completion_tokens": 1, "malformed": False, "reply": "r", "seconds": 1.0}
    call |= {"run_id": "", "stamp": "", "id": "1", "seq": 7}
    with sa.create_engine(url, poolclass=sa.NullPool).begin() as connection:
        upgrade(connection, "0001")
        names, values = ", ".join(f'"{name}"' for name in call), ", ".join(f":{name}" for name in call)
        connection.execute(sa.text(f"INSERT INTO model_calls ({names}) VALUES ({values})"), call)
    file, _ = backup(LedgerCopy(url), store, tmp_path)
    restore(file, LedgerCopy(ledger_url), store, tmp_path)  # its tables are there already, and empty
    (found,) = facts(ledger_url)[ModelCallFact]
    assert isinstance(found, ModelCallFact)
    assert found.model == "m"
    databases.drop(url)


@pytest.mark.parametrize("how", ["cut", "changed", "text", "foreign", "future"])
def test_a_bad_file_is_refused_and_the_ledger_untouched(
    filled: str,
    ledger_url: str,
    databases: Any,
    store: FsspecArtifactStore,
    other: FsspecArtifactStore,
    tmp_path: Path,
    how: str,
) -> None:
    url = databases.new_migrated()
    file, _ = backup(LedgerCopy(filled), store, tmp_path / "b.tar.gz")
    spoil(file, how)
    with pytest.raises(ConfigError, match=r"b\.tar\.gz"):
        restore(file, LedgerCopy(url), other, tmp_path)
    assert not any(facts(url).values())
    assert list(tmp_path.glob("restore-*")) == []
    databases.drop(url)


def spoil(file: Path, how: str) -> None:
    if how == "cut":
        file.write_bytes(file.read_bytes()[:-200])
    elif how == "text":
        file.write_text("not a tar")
    else:
        members = {
            "changed": edited(file, "ledger/edges"),
            "foreign": {"x": b"y"},
            "future": edited(file, "facet-backup.json"),
        }
        with tarfile.open(file, "w:gz") as tar:
            for name, data in members[how].items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))


def edited(file: Path, name: str) -> dict[str, bytes]:
    with tarfile.open(file) as tar:
        members = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    members[name] = members[name].replace(b'"format":1', b'"format":2').replace(b"\ta\t", b"\tz\t")
    return members


def test_a_damaged_and_a_lost_artifact_are_named(filled: str, store: FsspecArtifactStore, tmp_path: Path) -> None:
    lost, damaged = store.put(b"one"), store.put(b"two")
    Path(store._path(lost)).unlink()
    Path(store._path(damaged)).write_bytes(b"owt")
    file, whole = backup(LedgerCopy(filled), store, tmp_path / "b.tar.gz")
    assert file.exists()
    assert whole.unread == tuple(sorted([lost, damaged]))


def test_a_backup_that_fails_leaves_nothing(filled: str, store: FsspecArtifactStore, tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    with sa.create_engine(filled, poolclass=sa.NullPool).begin() as connection:
        connection.execute(sa.text("DROP TABLE ledger_version"))
    with pytest.raises(LedgerError):
        backup(LedgerCopy(filled), store, tmp_path / "target")
    assert list((tmp_path / "target").iterdir()) == []


def test_tidy_removes_only_what_nothing_names(filled: str, store: FsspecArtifactStore) -> None:
    inner = store.put(b"named by an artifact alone")
    chain = store.put(f'{{"of": "{inner}"}}'.encode())
    left, young = store.put(b"left behind"), store.put(b"of a run that goes on")
    with closing(PostgresLedger(filled)) as ledger:
        ledger.append(
            [AttemptFact(stage="s", key="k", kind="x", round=0, ok=True, artifact=store.put(f"<{chain}>".encode()))]
        )
    for blob in list(store.each()):
        age(store, blob.sha256, 0 if blob.sha256 == young else 30)
    copy = LedgerCopy(filled)
    tried = tidy(copy, store, days=7, dry_run=True)
    assert (tried.removed, tried.bytes, tried.young) == ((left,), len(b"left behind"), 1)
    assert store.has(left)
    assert tidy(copy, store, days=7, dry_run=False) == tried
    assert not store.has(left)
    assert all(store.has(sha) for sha in (inner, chain, young, store.put(b"one"), store.put(b"draft")))


def test_tidy_removes_nothing_while_an_artifact_cannot_be_read(filled: str, store: FsspecArtifactStore) -> None:
    left = store.put(b"left behind")
    age(store, left, 30)
    Path(store._path(store.put(b"one"))).write_bytes(b"eno")
    with pytest.raises(LedgerError, match="damaged"):
        tidy(LedgerCopy(filled), store, days=7, dry_run=False)
    assert store.has(left)


def test_what_is_stored_again_is_young(store: FsspecArtifactStore) -> None:
    sha = store.put(b"twice")
    age(store, sha, 30)
    store.put(b"twice")
    assert not store.remove(sha, time.time() - DAY)
    assert store.get(sha) == b"twice"


@pytest.fixture(scope="module")
def home() -> Iterator[Installation]:
    """A replayed batch, up to its scenarios."""
    for made in installation(FACET_SKILL_SHARE="0.005", FACET_SAME_SCENARIO="0.85"):
        made.json("ingest", str(ROOT / "examples" / "skills"))
        made.json("run", "--batch", "demo", "--until", "scenario")
        yield made


REPORTS = (("funnel",), ("seeds",), ("cost",))


@pytest.mark.docker
def test_a_batch_goes_on_elsewhere_from_a_backup(home: Installation, tmp_path: Path) -> None:
    said = home.json("backup", str(tmp_path / "b.tar.gz"))
    reports = [home.json(*report) for report in REPORTS]
    for elsewhere in installation(FACET_SKILL_SHARE="0.005", FACET_SAME_SCENARIO="0.85"):
        assert elsewhere.json("restore", str(tmp_path / "b.tar.gz")) == {
            k: said[k] for k in ("rows", "artifacts", "bytes")
        }
        assert [elsewhere.json(*report) for report in REPORTS] == reports
        done = elsewhere.call("run", "--batch", "demo", "--until", "scenario")
        assert done.returncode == 0, done.stdout + done.stderr
        counts = [line.split()[1] for line in done.stdout.splitlines() if " computed, " in line]
        assert len(counts) == 7
        assert set(counts) == {"0"}, done.stdout
        assert [elsewhere.json(*report) for report in REPORTS] == reports
        again = elsewhere.call("restore", str(tmp_path / "b.tar.gz"))
        assert again.returncode == 1
        assert "is not empty" in again.stderr
        tidied = elsewhere.json("tidy", "--dry-run", FACET_ARTIFACT_DAYS="0", FACET_RUN_DAYS="0")
        assert tidied["artifacts"]["removed"] == []
        assert json.loads(elsewhere.call("doctor", "--json").stdout)["ok"]
