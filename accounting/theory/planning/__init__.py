"""Which parameters meet a target."""
