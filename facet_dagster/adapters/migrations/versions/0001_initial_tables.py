"""Initial tables."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(sa.schema.CreateSequence(sa.Sequence("fact_seq")))
    op.create_table(
        "artifacts",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("artifacts_pkey")),
        sa.UniqueConstraint("seq", name=op.f("artifacts_seq_key")),
    )
    op.create_table(
        "attempts",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("round", sa.BigInteger(), nullable=False),
        sa.Column("ok", sa.Boolean(), nullable=False),
        sa.Column("component", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("artifact", sa.Text(), nullable=True),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("attempts_pkey")),
        sa.UniqueConstraint("seq", name=op.f("attempts_seq_key")),
    )
    op.create_index(op.f("attempts_key_idx"), "attempts", ["key"], unique=False)
    op.create_index(op.f("attempts_stage_key_idx"), "attempts", ["stage", "key"], unique=False)
    op.create_table(
        "candidates",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("candidate", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("first", sa.Text(), nullable=False),
        sa.Column("second", sa.Text(), nullable=False),
        sa.Column("anchor", sa.Text(), nullable=False),
        sa.Column("score", sa.Double(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("candidates_pkey")),
        sa.UniqueConstraint("seq", name=op.f("candidates_seq_key")),
    )
    op.create_index(op.f("candidates_candidate_idx"), "candidates", ["candidate"], unique=False)
    op.create_table(
        "checks",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("trial", sa.Text(), nullable=False),
        sa.Column("check", sa.Text(), nullable=False),
        sa.Column("requirement", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("checks_pkey")),
        sa.UniqueConstraint("seq", name=op.f("checks_seq_key")),
    )
    op.create_index(op.f("checks_trial_idx"), "checks", ["trial"], unique=False)
    op.create_table(
        "edges",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("child", sa.Text(), nullable=False),
        sa.Column("parent", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("edges_pkey")),
        sa.UniqueConstraint("seq", name=op.f("edges_seq_key")),
    )
    op.create_index(op.f("edges_child_idx"), "edges", ["child"], unique=False)
    op.create_index(op.f("edges_parent_idx"), "edges", ["parent"], unique=False)
    op.create_table(
        "hypotheses",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("skill", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("situation", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("hypotheses_pkey")),
        sa.UniqueConstraint("seq", name=op.f("hypotheses_seq_key")),
    )
    op.create_index(op.f("hypotheses_skill_idx"), "hypotheses", ["skill"], unique=False)
    op.create_table(
        "model_calls",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("call", sa.Text(), nullable=False),
        sa.Column("cache_key", sa.Text(), nullable=False),
        sa.Column("tape_key", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("turn", sa.BigInteger(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=False),
        sa.Column("completion_tokens", sa.BigInteger(), nullable=False),
        sa.Column("malformed", sa.Boolean(), nullable=False),
        sa.Column("reply", sa.Text(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("stamp", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("model_calls_pkey")),
        sa.UniqueConstraint("seq", name=op.f("model_calls_seq_key")),
    )
    op.create_index(op.f("model_calls_cache_key_idx"), "model_calls", ["cache_key"], unique=False)
    op.create_index(op.f("model_calls_subject_idx"), "model_calls", ["subject"], unique=False)
    op.create_table(
        "raw_skills",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("skill", sa.Text(), nullable=False),
        sa.Column("bucket", sa.Text(), nullable=False),
        sa.Column("value", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("raw_skills_pkey")),
        sa.UniqueConstraint("seq", name=op.f("raw_skills_seq_key")),
    )
    op.create_index(op.f("raw_skills_bucket_idx"), "raw_skills", ["bucket"], unique=False)
    op.create_table(
        "replies",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("cache_key", sa.Text(), nullable=False),
        sa.Column("call", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("reply", sa.Text(), nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=False),
        sa.Column("completion_tokens", sa.BigInteger(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("replies_pkey")),
        sa.UniqueConstraint("seq", name=op.f("replies_seq_key")),
    )
    op.create_index(op.f("replies_cache_key_idx"), "replies", ["cache_key"], unique=False)
    op.create_table(
        "seeds",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("batch", sa.Text(), nullable=False),
        sa.Column("candidate", sa.Text(), nullable=False),
        sa.Column("first", sa.Text(), nullable=False),
        sa.Column("second", sa.Text(), nullable=False),
        sa.Column("scenario", sa.Text(), nullable=False),
        sa.Column("families", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("seeds_pkey")),
        sa.UniqueConstraint("seq", name=op.f("seeds_seq_key")),
    )
    op.create_index(op.f("seeds_batch_idx"), "seeds", ["batch"], unique=False)
    op.create_index(op.f("seeds_candidate_idx"), "seeds", ["candidate"], unique=False)
    op.create_index(op.f("seeds_key_idx"), "seeds", ["key"], unique=False)
    op.create_table(
        "skills",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("skill", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("bucket", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("licence", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("duplicate_of", sa.Text(), nullable=True),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("skills_pkey")),
        sa.UniqueConstraint("seq", name=op.f("skills_seq_key")),
    )
    op.create_index(op.f("skills_bucket_idx"), "skills", ["bucket"], unique=False)
    op.create_index(op.f("skills_skill_idx"), "skills", ["skill"], unique=False)
    op.create_table(
        "stages",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("input_digest", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("component", sa.Text(), nullable=False),
        sa.Column("rejected_at", sa.Text(), nullable=False),
        sa.Column("result", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("stages_pkey")),
        sa.UniqueConstraint("seq", name=op.f("stages_seq_key")),
    )
    op.create_index(op.f("stages_key_idx"), "stages", ["key"], unique=False)
    op.create_index(op.f("stages_stage_key_input_digest_idx"), "stages", ["stage", "key", "input_digest"], unique=False)
    op.create_table(
        "trials",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("draft", sa.Text(), nullable=False),
        sa.Column("round", sa.BigInteger(), nullable=False),
        sa.Column("repeat", sa.BigInteger(), nullable=False),
        sa.Column("reward", sa.BigInteger(), nullable=True),
        sa.Column("exit_code", sa.BigInteger(), nullable=True),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("trials_pkey")),
        sa.UniqueConstraint("seq", name=op.f("trials_seq_key")),
    )
    op.create_index(op.f("trials_key_idx"), "trials", ["key"], unique=False)
    op.create_index(op.f("trials_stage_key_idx"), "trials", ["stage", "key"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("trials_stage_key_idx"), table_name="trials")
    op.drop_index(op.f("trials_key_idx"), table_name="trials")
    op.drop_table("trials")
    op.drop_index(op.f("stages_stage_key_input_digest_idx"), table_name="stages")
    op.drop_index(op.f("stages_key_idx"), table_name="stages")
    op.drop_table("stages")
    op.drop_index(op.f("skills_skill_idx"), table_name="skills")
    op.drop_index(op.f("skills_bucket_idx"), table_name="skills")
    op.drop_table("skills")
    op.drop_index(op.f("seeds_key_idx"), table_name="seeds")
    op.drop_index(op.f("seeds_candidate_idx"), table_name="seeds")
    op.drop_index(op.f("seeds_batch_idx"), table_name="seeds")
    op.drop_table("seeds")
    op.drop_index(op.f("replies_cache_key_idx"), table_name="replies")
    op.drop_table("replies")
    op.drop_index(op.f("raw_skills_bucket_idx"), table_name="raw_skills")
    op.drop_table("raw_skills")
    op.drop_index(op.f("model_calls_subject_idx"), table_name="model_calls")
    op.drop_index(op.f("model_calls_cache_key_idx"), table_name="model_calls")
    op.drop_table("model_calls")
    op.drop_index(op.f("hypotheses_skill_idx"), table_name="hypotheses")
    op.drop_table("hypotheses")
    op.drop_index(op.f("edges_parent_idx"), table_name="edges")
    op.drop_index(op.f("edges_child_idx"), table_name="edges")
    op.drop_table("edges")
    op.drop_index(op.f("checks_trial_idx"), table_name="checks")
    op.drop_table("checks")
    op.drop_index(op.f("candidates_candidate_idx"), table_name="candidates")
    op.drop_table("candidates")
    op.drop_index(op.f("attempts_stage_key_idx"), table_name="attempts")
    op.drop_index(op.f("attempts_key_idx"), table_name="attempts")
    op.drop_table("attempts")
    op.drop_table("artifacts")
    op.execute(sa.schema.DropSequence(sa.Sequence("fact_seq")))
