"""Statistical audits: what many draws show of each claim."""
