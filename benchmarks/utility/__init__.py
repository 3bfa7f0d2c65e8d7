"""What releases are worth: their tables beside those of other ways, at equal (ε, δ)."""
