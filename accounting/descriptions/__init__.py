"""Describe each kind of mechanism: sentences, proofs, curves and figures; nothing here decides a price."""
