"""Which task sets and training sets were handed out."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    texts = [sa.Column(name, sa.Text(), nullable=False) for name in ("kind", "version", "manifest")]
    counts = [sa.Column(name, sa.BigInteger(), nullable=False) for name in ("rows", "tasks")]
    op.create_table(
        "datasets",
        sa.Column("id", sa.Text(), nullable=False),
        *texts,
        *counts,
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("datasets_pkey")),
        sa.UniqueConstraint("seq", name=op.f("datasets_seq_key")),
    )
    op.create_index(op.f("datasets_version_idx"), "datasets", ["version"], unique=False)
