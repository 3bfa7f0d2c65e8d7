"""What makes the record tamper-evident: hash chain, signed state, anchors."""
