"""The private utility report: what a release lost and risks, for the steward's eyes alone."""
