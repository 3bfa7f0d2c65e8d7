"""The accountant: budgets, samples used once, and an append-only, hash-chained record of both."""
