"""Run by Alembic: migrate over the connection that the caller brings, inside the caller's transaction."""

from alembic import context

from facet_dagster.adapters.ledger_tables import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    version_table="ledger_version",
)
with context.begin_transaction():
    context.run_migrations()
