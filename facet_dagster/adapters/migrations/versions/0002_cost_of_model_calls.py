"""What model calls cost, and what they waited for."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("model_calls", sa.Column("day", sa.Text(), nullable=False, server_default=""))
    op.add_column("model_calls", sa.Column("cost", sa.Double(), nullable=True))
    op.add_column("model_calls", sa.Column("retries", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("model_calls", sa.Column("waited", sa.Double(), nullable=False, server_default="0"))
    op.create_index(op.f("model_calls_day_idx"), "model_calls", ["day"], unique=False)
    op.create_index(op.f("model_calls_run_id_idx"), "model_calls", ["run_id"], unique=False)
    op.add_column("replies", sa.Column("cost", sa.Double(), nullable=True))
