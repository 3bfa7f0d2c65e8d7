"""The ledger's schema, revision by revision; Alembic runs them in the transaction that creates or migrates it."""
