"""Rules of composition that several kinds charge by: privacy losses, games, Rényi filters, groups, amplification."""
