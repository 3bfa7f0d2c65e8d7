"""Arithmetic that rounds against the one who spends: decimals, binomials, convolutions, searches."""
