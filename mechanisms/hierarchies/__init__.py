"""Generalization hierarchies: declared, built, checked, and described in a certificate."""
