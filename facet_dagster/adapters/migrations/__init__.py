"""Alembic migrations of the ledger; ``PostgresLedger.migrate`` runs them."""
