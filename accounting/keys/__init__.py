"""What keeps the private store in order: inspection, sweeping, signing keys made and replaced."""
