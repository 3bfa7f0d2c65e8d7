"""What pages may see of a ledger: one state of it, its rows and figures."""
