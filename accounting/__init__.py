"""What a release costs (theory), and what has been spent (ledger)."""
