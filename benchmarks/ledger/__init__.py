"""What a ledger of many entries costs."""
