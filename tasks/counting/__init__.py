"""Counts on threads, processes and clusters: chunks, coins, partial counts, their merge."""
