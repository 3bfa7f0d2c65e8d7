"""The kinds of release, one module each, and what each of them must say."""
