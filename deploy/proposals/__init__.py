"""How a specification is begun: what columns seem to be, what public records tell of them, which go together."""
