"""Tables from the ledger."""
