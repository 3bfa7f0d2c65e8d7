"""Planted faults: changes of the sources that the bench or the tests must catch."""
