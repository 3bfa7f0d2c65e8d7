"""Theory that the bench checks claims with, and that no release is charged by."""
