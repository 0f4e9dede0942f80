"""Quarantine, retries and audits; which result an attempt or a trial belongs to."""

import hashlib
import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    quarantine = [_numbered("round"), _flag("quarantined"), *_texts("note", "by", "name", "package")]
    _table("quarantines", [_text("key"), *quarantine], [["key"]])
    retry = [*_texts("stage", "key", "input_digest"), _numbered("round"), *_texts("note", "by", "name")]
    _table("retries", retry, [["stage", "key"]])
    sample = [_numbered("number"), _text("family"), _flag("repaired"), _numbered("of"), _text("package")]
    _table("samples", [_text("sample"), _text("key"), *sample], [["sample"], ["key"]])
    audit = [_text("package"), _numbered("round"), _flag("ok"), _text("note"), _text("name")]
    _table("audits", [_text("key"), *audit], [["key"]])
    op.add_column("stages", sa.Column("under", sa.Text(), nullable=False, server_default=""))
    for table in ("attempts", "trials"):
        op.add_column(table, sa.Column("input_digest", sa.Text(), nullable=False, server_default=""))
        # A stage appends what it did together with its result, which comes last.
        op.execute(
            f"UPDATE {table} SET input_digest = found.input_digest FROM (SELECT t.id, s.input_digest FROM {table} t, "  # noqa: S608
            "LATERAL (SELECT input_digest FROM stages WHERE stage = t.stage AND key = t.key AND seq > t.seq "
            f"ORDER BY seq LIMIT 1) s WHERE t.stage <> 'rollouts') found WHERE found.id = {table}.id"
        )
    _rename_trials()


def _rename_trials() -> None:
    """The result is part of a trial's id now, and checks name their trial by its id."""
    names = ("stage", "key", "kind", "draft", "repeat", "input_digest")
    connection = op.get_bind()
    rows = connection.execute(sa.text(f"SELECT id, {', '.join(names)} FROM trials WHERE input_digest <> ''")).all()  # noqa: S608
    for row in rows:
        data = dict(zip(names, row[1:], strict=True))
        text = json.dumps(data, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        change = {"old": row[0], "new": hashlib.sha256(text.encode()).hexdigest()}
        connection.execute(sa.text("UPDATE trials SET id = :new WHERE id = :old"), change)
        connection.execute(sa.text("UPDATE checks SET trial = :new WHERE trial = :old"), change)


def _text(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Text(), nullable=False)


def _texts(*names: str) -> list[sa.Column[Any]]:
    return [_text(name) for name in names]


def _numbered(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger(), nullable=False)


def _flag(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Boolean(), nullable=False)


def _table(name: str, columns: list[sa.Column[Any]], indexes: list[list[str]]) -> None:
    op.create_table(
        name,
        _text("id"),
        *columns,
        _numbered("seq"),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f(f"{name}_pkey")),
        sa.UniqueConstraint("seq", name=op.f(f"{name}_seq_key")),
    )
    for index in indexes:
        op.create_index(op.f(f"{name}_{'_'.join(index)}_idx"), name, index, unique=False)
