"""The adversary's bench: a tool of its own that attacks the software and every claim that it makes."""
