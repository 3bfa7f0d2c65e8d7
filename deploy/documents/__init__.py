"""Documents for people, each one file that needs nothing else: pages with pictures, and the same as plain text."""
