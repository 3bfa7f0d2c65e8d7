"""A release's certificate: written, verified, and turned into a public registry's entry."""
