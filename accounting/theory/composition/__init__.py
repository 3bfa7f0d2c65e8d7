"""What several releases cost together, and what a guarantee is worth elsewhere."""
