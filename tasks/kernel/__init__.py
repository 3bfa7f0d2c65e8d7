"""What a release passes through, from its charge to its publication."""
