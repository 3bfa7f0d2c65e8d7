"""Measures of what a release keeps and what it risks, on counted records; pure, and of private data unless said."""
