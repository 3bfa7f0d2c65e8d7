"""Wide files: what releases in blocks are worth beside synthesizers, and NIST's own report of one."""
