"""Prefect flows: whole releases, composed of tasks."""
