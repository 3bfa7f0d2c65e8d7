"""What a mechanism costs: the exact profile, composition, and the kinds that are charged."""
