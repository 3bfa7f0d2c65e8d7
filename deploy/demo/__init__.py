"""The files that the demonstration lays out: a specification and its hierarchies."""
