"""What `api.py` offers: budgets, releases, hierarchies and questions from Python."""
