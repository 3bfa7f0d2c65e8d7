"""Prefect for a run of one's own: its settings, its server, and the flow that a schedule deploys."""
