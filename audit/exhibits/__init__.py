"""Exhibits: attacks on another way of doing things, and on ours."""
