"""Metadata that travel with a release: a data dictionary, CSVW, Croissant and a DDI codebook."""
