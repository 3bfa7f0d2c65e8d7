"""Fuzzing: hostile inputs to every way into the product."""
