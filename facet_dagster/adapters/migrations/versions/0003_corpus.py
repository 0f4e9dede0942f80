"""Which skills are in the corpus, and what deduplication decided about them."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "presences",
        *_common(),
        sa.Column("skill", sa.Text(), nullable=False),
        sa.Column("present", sa.Boolean(), nullable=False),
        *_rest("presences"),
    )
    op.create_index(op.f("presences_skill_idx"), "presences", ["skill"], unique=False)
    names = [sa.Column(name, sa.Text(), nullable=False) for name in ("bucket", "version", "raws", "decided")]
    op.create_table("decisions", *_common(), *names, *_rest("decisions"))
    op.create_index(op.f("decisions_bucket_idx"), "decisions", ["bucket"], unique=False)


def _common() -> list[sa.schema.SchemaItem]:
    return [sa.Column("id", sa.Text(), nullable=False), sa.Column("round", sa.BigInteger(), nullable=False)]


def _rest(table: str) -> list[sa.schema.SchemaItem]:
    return [
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f(f"{table}_pkey")),
        sa.UniqueConstraint("seq", name=op.f(f"{table}_seq_key")),
    ]
