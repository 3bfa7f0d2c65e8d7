"""What the command line prints: progress, tables, results."""
