"""SQLite databases: wrong rows in them, and other files with the same content. In memory, with bounded work."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from facet_dagster.domain.variants.edits import Wish, names_rows, shifted, spread
from facet_dagster.domain.variants.layout import is_prose

MAGIC = b"SQLite format 3\0"
_ROWS = 2_000
_STEPS = 20_000_000
_LENGTH = 4 * 1024 * 1024

Row = tuple[Any, ...]
Change = tuple[str, str, str, Row]  # kind, what, statement, its parameters


@contextmanager
def opened(data: bytes) -> Iterator[sqlite3.Connection]:
    """Raises sqlite3.Error when it is no database. One left in WAL mode is opened without its log."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        connection.deserialize(data[:18] + b"\x01\x01" + data[20:])
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LENGTH)
        for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "temp_store = MEMORY"):
            connection.execute(f"PRAGMA {pragma}")
        connection.set_progress_handler(lambda: 1, _STEPS)
        yield connection
    finally:
        connection.close()


def said_by_database(data: bytes) -> Any:
    """Its schema, and the rows of each table in no order. Raises sqlite3.Error."""
    with opened(data) as connection:
        schema = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
        rows = {name: sorted(map(repr, _select(connection, name, "*"))) for name in _tables(connection)}
        return sorted(map(repr, schema)), rows


def database_edits(data: bytes, wish: Wish) -> Iterator[tuple[str, str, bytes]]:
    """At most one edit a kind, most telling first. Raises sqlite3.Error or ValueError."""
    said = said_by_database(data)
    with opened(data) as connection:
        changes = list(_changes(connection, wish))
    done: set[str] = set()
    for kind, what, statement, parameters in changes:
        new = None if kind in done else _changed(data, statement, parameters)
        if new is not None and said_by_database(new) != said:
            done.add(kind)
            yield kind, what, new


def _changed(data: bytes, statement: str, parameters: Row) -> bytes | None:
    """None when a constraint forbids it."""
    try:
        with opened(data) as connection:
            connection.execute(statement, parameters)
            return _saved(connection, data)
    except (sqlite3.Error, ValueError, OverflowError):
        return None


def _saved(connection: sqlite3.Connection, data: bytes) -> bytes:
    new = connection.serialize()
    return new[:18] + data[18:20] + new[20:]


def _changes(connection: sqlite3.Connection, wish: Wish) -> Iterator[Change]:
    tables = _tables(connection)
    wish.rng.shuffle(tables)
    bodies = [(name, _columns(connection, name)) for name in tables]
    filled = [
        (name, names, _select(connection, name, ", ".join(map(quoted, names)))) for name, names in bodies if names
    ]
    makers = [_numbers, _drops, _texts] if wish.rng.random() < 0.5 else [_numbers, _texts, _drops]
    for maker in [*makers, _nulls]:
        for name, names, rows in filled:
            if rows:
                yield from maker(name, names, rows, wish)


def _numbers(name: str, names: list[str], rows: list[Row], wish: Wish) -> Iterator[Change]:
    order = wish.rng.sample(range(len(names)), len(names))
    for column in sorted(order, key=lambda index: names_rows(names[index])):
        for row in spread(wish.rng, rows)[:2]:
            new = shifted(str(row[column]), wish.tolerance) if isinstance(row[column], int | float | str) else None
            if new is not None:
                kind = type(row[column])
                yield _update("number", name, names, row, column, kind(new))


def _texts(name: str, names: list[str], rows: list[Row], wish: Wish) -> Iterator[Change]:
    for column in wish.rng.sample(range(len(names)), len(names)):
        for row in spread(wish.rng, rows)[:2]:
            old = row[column]
            if isinstance(old, str) and not is_prose(old) and shifted(old) is None:
                values = (other[column] for other in spread(wish.rng, rows))
                new = next((v for v in values if isinstance(v, str) and v.strip() not in ("", old.strip())), None)
                if new is not None:
                    yield _update("text", name, names, row, column, new)


def _nulls(name: str, names: list[str], rows: list[Row], wish: Wish) -> Iterator[Change]:
    for column in wish.rng.sample(range(len(names)), len(names)):
        row = spread(wish.rng, rows)[0]
        if row[column] is not None:
            yield _update("null", name, names, row, column, None)


def _drops(name: str, names: list[str], rows: list[Row], wish: Wish) -> Iterator[Change]:
    for row in spread(wish.rng, rows)[:2]:
        what = f"removed a row of {name[:60]}: {str(row)[:60]}"
        yield "drop", what, f"DELETE FROM {quoted(name)} WHERE {_match(names)}", row  # noqa: S608 - quoted names


def _update(kind: str, name: str, names: list[str], row: Row, column: int, new: Any) -> Change:
    what = f"{name[:60]}.{names[column][:60]}: {str(row[column])[:60]} became {str(new)[:60]}"
    statement = f"UPDATE {quoted(name)} SET {quoted(names[column])} = ? WHERE {_match(names)}"  # noqa: S608
    return kind, what, statement, (new, *row)


def _match(names: list[str]) -> str:
    return " AND ".join(f"{quoted(name)} IS ?" for name in names)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _tables(connection: sqlite3.Connection) -> list[str]:
    """Ordinary tables by name: neither virtual ones, nor those in which virtual ones keep their data."""
    found = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    virtual = tuple(f"{name}_" for name, sql in found if str(sql).upper().startswith("CREATE VIRTUAL"))
    plain = [name for name, sql in found if f"{name}_" not in virtual and not name.startswith("sqlite_")]
    return [name for name in plain if not (virtual and name.startswith(virtual))]


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    """Without generated ones."""
    return [row[1] for row in connection.execute(f"PRAGMA table_info({quoted(table)})")]


def _select(connection: sqlite3.Connection, table: str, what: str) -> list[Row]:
    limit = "" if what == "*" else f" LIMIT {_ROWS}"
    return connection.execute(f"SELECT {what} FROM {quoted(table)}{limit}").fetchall()  # noqa: S608 - quoted names


def database_equivalents(data: bytes) -> Iterator[tuple[str, str, bytes]]:
    """Compacted, and with the rows stored in another order. Raises sqlite3.Error."""
    with opened(data) as connection:
        connection.execute("VACUUM")
        yield "vacuum", "the database compacted by VACUUM", _saved(connection, data)
    with opened(data) as connection:
        if connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'trigger'").fetchone():
            return
        for table in _tables(connection):
            columns = _columns(connection, table)
            names = ", ".join(map(quoted, columns))
            rows = connection.execute(f"SELECT {names} FROM {quoted(table)}").fetchall()  # noqa: S608
            connection.execute(f"DELETE FROM {quoted(table)}")  # noqa: S608
            marks = ", ".join("?" * len(columns))
            into = f"INSERT INTO {quoted(table)} ({names}) VALUES ({marks})"  # noqa: S608
            connection.executemany(into, reversed(rows))
        yield "row_order", "the same rows inserted in another order", _saved(connection, data)
