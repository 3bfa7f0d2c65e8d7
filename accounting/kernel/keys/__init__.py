"""The private store: sampling keys, draws, signing keys and anchors, in files of their owner alone."""
