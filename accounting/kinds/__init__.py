"""The kinds of mechanisms, one module each: its record, its price, and what is said of it."""
