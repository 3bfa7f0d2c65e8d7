"""Whether an entry may be written: the same rules for a look, for a charge and for verification."""
