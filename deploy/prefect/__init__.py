"""The flow that a schedule deploys to a Prefect server."""
