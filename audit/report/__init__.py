"""The report: what all parts have found, on one page."""
