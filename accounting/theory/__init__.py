"""Prices: what a mechanism with given parameters costs in (epsilon, delta), with proofs in docs/proofs."""
