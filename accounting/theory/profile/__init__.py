"""Exact privacy profiles and the papers' bounds, one module for each shape of mechanism."""
