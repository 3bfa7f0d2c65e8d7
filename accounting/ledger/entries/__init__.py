"""What the ledger records: closed unions of entries, their amounts and names, and their one byte string."""
