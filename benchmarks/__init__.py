"""Benchmarks: what the software costs and what its releases are worth, measured on this machine."""
