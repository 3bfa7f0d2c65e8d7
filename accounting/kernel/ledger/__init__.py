"""The ledger: entries, rules, their fold, and the transactions that append."""
