"""How people put it to work: the command line, settings and the demonstration."""
