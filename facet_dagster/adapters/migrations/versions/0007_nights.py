"""What sources held when they were read, how nights went, which runs failed."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _table("sources", _text("source"), _number("round"), _text("state"))
    op.create_index(op.f("sources_source_idx"), "sources", ["source"], unique=False)
    report = sa.Column("report", sa.Text(), nullable=True)
    _table("nights", _text("night"), _number("round"), _text("state"), _text("said"), _text("release"), report)
    op.create_index(op.f("nights_night_idx"), "nights", ["night"], unique=False)
    assets = sa.Column("assets", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False)
    texts = [_text(name) for name in ("first", "last", "message", "moment")]
    _table("failures", _text("run"), _text("job"), assets, *texts)


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=False)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False)


def _table(name: str, *columns: sa.schema.SchemaItem) -> None:
    op.create_table(
        name,
        sa.Column("id", sa.Text(), nullable=False),
        *columns,
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f(f"{name}_pkey")),
        sa.UniqueConstraint("seq", name=op.f(f"{name}_seq_key")),
    )
