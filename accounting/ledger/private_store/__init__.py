"""Keys, draws and locks of one steward, outside every ledger."""
