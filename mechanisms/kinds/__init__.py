"""The kinds of mechanisms, one module each: its parameters, and the protection of exact counts."""
