"""The ledger in PostgreSQL."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from sqlalchemy import exc

from facet_dagster.adapters.ledger_tables import FACT_SEQ, fields_of, table_of
from facet_dagster.adapters.postgres_errors import ledger_errors
from facet_dagster.domain.facts import CACHES, FACTS, Fact
from facet_dagster.domain.ids import digest
from facet_dagster.errors import Held, InvariantError
from facet_dagster.ports import AnyFact

_MIGRATIONS = Path(__file__).with_name("migrations")
_ORDER = {kind: place for place, kind in enumerate(FACTS)}

# ``reach`` collects the edges above a node once each; ``walk`` measures how far each node is. Its bound
# only matters in a cycle: no shortest way is longer than the number of edges.
_ANCESTORS = sa.text("""
WITH RECURSIVE reach AS (
    SELECT seq, child, parent, kind FROM edges WHERE child = :ident
    UNION
    SELECT e.seq, e.child, e.parent, e.kind FROM reach r JOIN edges e ON e.child = r.parent
), walk AS (
    SELECT CAST(:ident AS text) AS node, 1 AS depth
    UNION
    SELECT r.parent, w.depth + 1 FROM walk w JOIN reach r ON r.child = w.node
    WHERE w.depth < (SELECT count(*) FROM reach)
)
SELECT min(w.depth) AS depth, r.child, r.parent, r.kind
FROM walk w JOIN reach r ON r.child = w.node
GROUP BY r.seq, r.child, r.parent, r.kind
ORDER BY depth, r.seq
""")


class PostgresLedger:
    """``Ledger`` over a SQLAlchemy URL whose database was brought up to date by ``migrate``.

    Safe for threads and processes. Claims are session-level advisory locks, each on a connection of its
    own, so a connection pooler in transaction mode must not stand between.
    """

    def __init__(self, url: str) -> None:
        self._url = sa.make_url(url)
        common: dict[str, Any] = {"pool_pre_ping": True, "hide_parameters": True}
        self._engine = sa.create_engine(
            self._url, pool_size=5, max_overflow=10, connect_args={"connect_timeout": 10}, **common
        )
        # Idle claim connections are reused; their number is bounded by the keys in flight alone.
        self._claims = sa.create_engine(
            self._url,
            pool_size=4,
            max_overflow=-1,
            isolation_level="AUTOCOMMIT",
            connect_args={"connect_timeout": 10, "options": "-c statement_timeout=0"},
            **common,
        )

    def close(self) -> None:
        """Close idle connections."""
        self._engine.dispose()
        self._claims.dispose()

    def migrate(self) -> None:
        """Create or upgrade the tables; processes that do it at once wait for each other."""
        config = Config()
        config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
        with ledger_errors(self._url), self._engine.begin() as connection:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_lock_key("migrate"))))
            config.attributes["connection"] = connection
            command.upgrade(config, "head")

    def append(self, facts: Iterable[Fact]) -> None:
        rows = _rows(facts)
        count = sum(len(group) for group in rows.values())
        if not count:
            return
        with ledger_errors(self._url), self._engine.begin() as connection:
            places = _places(connection, count)
            for kind, group in rows.items():
                # In a fixed order everywhere, so that two appends of the same facts cannot deadlock.
                numbered = [{**row, "seq": places[row["seq"]]} for row in sorted(group, key=lambda row: row["id"])]
                connection.execute(_insert(kind), numbered)

    def find(self, kind: type[AnyFact], /, **where: Any) -> list[AnyFact]:
        columns = fields_of(kind)
        names = [column.name for column in columns]
        query = sa.select(*columns).order_by(table_of(kind).c.seq).where(*_conditions(kind, where))
        with ledger_errors(self._url), self._engine.connect() as connection:
            found = connection.execute(query).all()
        return [kind.model_validate(dict(zip(names, row, strict=True))) for row in found]

    def values(self, kind: type[Fact], /, *columns: str, **where: Any) -> list[tuple[Any, ...]]:
        table = table_of(kind)
        query = sa.select(*(table.c[name] for name in columns)).order_by(table.c.seq).where(*_conditions(kind, where))
        with ledger_errors(self._url), self._engine.connect() as connection:
            return [tuple(row) for row in connection.execute(query)]

    def evict(self, kind: type[Fact], *, before: datetime | None = None, **where: Any) -> int:
        if kind not in CACHES:
            raise InvariantError(f"{kind.__name__} is lineage, which is never forgotten")
        query = sa.delete(table_of(kind)).where(*_conditions(kind, where))
        if before is not None:
            query = query.where(table_of(kind).c.at < before)
        with ledger_errors(self._url), self._engine.begin() as connection:
            return connection.execute(query).rowcount

    def total(self, kind: type[Fact], column: str, **where: Any) -> float:
        query = sa.select(sa.func.sum(table_of(kind).c[column])).where(*_conditions(kind, where))
        with ledger_errors(self._url), self._engine.connect() as connection:
            return float(connection.execute(query).scalar() or 0.0)

    @contextmanager
    def claim(self, name: str, *, wait: bool = True) -> Iterator[None]:
        key = _lock_key(f"claim/{name}")
        lock = sa.func.pg_advisory_lock if wait else sa.func.pg_try_advisory_lock
        with ledger_errors(self._url):
            connection = self._claims.connect()
        with connection:
            with ledger_errors(self._url):
                got = connection.execute(sa.select(lock(key))).scalar()
            if not wait and not got:
                raise Held(f"{name} is claimed by somebody else")
            try:
                yield
            finally:
                _release(connection, key)

    def ancestors(self, ident: str) -> list[tuple[int, str, str, str]]:
        with ledger_errors(self._url), self._engine.connect() as connection:
            return [(d, c, p, k) for d, c, p, k in connection.execute(_ANCESTORS, {"ident": ident})]


def _release(connection: sa.Connection, key: int) -> None:
    """Unlock; where that fails, end the session, and the lock with it."""
    try:
        connection.execute(sa.select(sa.func.pg_advisory_unlock(key)))
    except exc.DBAPIError:
        connection.invalidate()


def _lock_key(name: str) -> int:
    """A signed 64-bit number, as advisory locks want it."""
    return int.from_bytes(bytes.fromhex(digest(f"facet/{name}")[:16]), signed=True)


def _rows(facts: Iterable[Fact]) -> dict[type[Fact], list[dict[str, Any]]]:
    """Rows by class in the order of FACTS, each id once; ``seq`` counts from 0 in the order given."""
    rows: dict[type[Fact], dict[str, dict[str, Any]]] = defaultdict(dict)
    count = 0
    for fact in facts:
        kind, data = type(fact), fact.model_dump(mode="json")
        clean = _clean(data)
        ident = (fact if clean == data else kind.model_validate(clean)).fact_id
        if ident not in rows[kind]:
            rows[kind][ident] = {**clean, "id": ident, "seq": count}
            count += 1
    return {kind: list(rows[kind].values()) for kind in sorted(rows, key=_ORDER.__getitem__)}


@cache
def _insert(kind: type[Fact]) -> sa.TextClause:
    """As text: SQLAlchemy compiles an insert with ON CONFLICT anew each time, which costs more than to execute it."""
    table = table_of(kind)
    columns = [table.c[name] for name in ("id", *kind.model_fields, "seq")]
    names = ", ".join(f'"{column.name}"' for column in columns)
    values = ", ".join(f":{column.name}" for column in columns)
    text = sa.text(f"INSERT INTO {table.name} ({names}) VALUES ({values}) ON CONFLICT (id) DO NOTHING")  # noqa: S608
    return text.bindparams(*(sa.bindparam(column.name, type_=column.type) for column in columns))


def _places(connection: sa.Connection, count: int) -> list[int]:
    """The next ``count`` numbers of the common sequence, ascending."""
    numbers = sa.text(f"SELECT nextval('{FACT_SEQ}') FROM generate_series(1, :count)")  # noqa: S608
    return sorted(connection.execute(numbers, {"count": count}).scalars())


def _clean(value: Any) -> Any:
    """JSON data as PostgreSQL can hold it: NUL characters left out, lone surrogates turned into ``?``."""
    if isinstance(value, str):
        return value.replace("\0", "").encode(errors="replace").decode()
    if isinstance(value, dict):
        return {_clean(name): _clean(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return value


def _conditions(kind: type[Fact], where: Mapping[str, Any]) -> list[sa.ColumnElement[bool]]:
    unknown = sorted(set(where) - set(kind.model_fields))
    if unknown:
        raise InvariantError(f"{kind.__name__} has no column {', '.join(unknown)}")
    return [_matches(table_of(kind).c[name], wanted) for name, wanted in where.items()]


def _matches(column: sa.Column[Any], wanted: Any) -> sa.ColumnElement[bool]:
    if not isinstance(wanted, list | tuple | set | frozenset):
        return column.is_(None) if wanted is None else column == _plain(wanted)
    matches = column.in_([_plain(item) for item in wanted if item is not None])
    return sa.or_(matches, column.is_(None)) if None in wanted else matches


def _plain(value: Any) -> Any:
    value = value.value if isinstance(value, Enum) else value
    return _clean(value)
