from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

from facet_dagster.domain.file_variants import equivalents, mutants

SCHEMA = """
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL CHECK (price < 100));
CREATE TABLE pair(a TEXT PRIMARY KEY, b INTEGER) WITHOUT ROWID;
CREATE TABLE "odd ""name"(v, w);
INSERT INTO item VALUES (1, 'ant', 99.5), (2, 'bee', 2.5), (3, 'cat', 3.5);
INSERT INTO pair VALUES ('x', 10), ('y', 20);
INSERT INTO "odd ""name" VALUES (1, 'p'), (2, 'q'), (3, 'r');
"""


def database(script: str = SCHEMA) -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(script)
        return connection.serialize()


def content(data: bytes | None) -> Any:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(data or b"")
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        select = 'SELECT * FROM "{}"'
        rows = {n: connection.execute(select.format(n.replace('"', '""'))).fetchall() for n in names}
        return {name: sorted(map(repr, found)) for name, found in rows.items()}


def test_a_database_gets_wrong_rows() -> None:
    data = database()
    for seed in range(20):
        made = mutants(f"{seed}.db", data)
        assert {variant.kind for variant in made} == {"number", "drop", "text"}
        assert made == mutants(f"{seed}.db", data)
        assert all(content(variant.data) != content(data) for variant in made)


def test_other_files_of_the_same_content_are_equivalents() -> None:
    data = database()
    made = equivalents("a.db", data)
    assert [variant.kind for variant in made] == ["vacuum", "row_order"]
    assert all(variant.data != data and content(variant.data) == content(data) for variant in made)


def test_a_database_in_wal_mode_stays_in_it() -> None:
    plain = database()
    wal = plain[:18] + b"\x02\x02" + plain[20:]
    made = mutants("a.db", wal)
    assert len(made) == 3
    assert all((variant.data or b"")[18:20] == b"\x02\x02" for variant in made)


def test_hostile_databases_are_bounded() -> None:
    huge = "CREATE TABLE t(a, g AS (hex(zeroblob(400000000)))); INSERT INTO t(a) VALUES (1), (2), (3);"
    assert [variant.kind for variant in mutants("a.db", database(huge))] == ["empty"]
    endless = "CREATE VIEW v AS WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT * FROM r;"
    assert "number" in [variant.kind for variant in mutants("a.db", database(SCHEMA + endless))]
    undone = "CREATE TRIGGER u AFTER UPDATE ON t BEGIN DELETE FROM t; END;"
    assert mutants("a.db", database("CREATE TABLE t(a); INSERT INTO t VALUES (1), (2);" + undone))
    assert [variant.kind for variant in mutants("a.db", database()[:3000])] == ["empty"]
