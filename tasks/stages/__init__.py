"""The stages of a release, whatever its kind: each one a Prefect task."""
