"""The researcher's sheet of a release: what its table can be used for and how, from what is published alone."""
