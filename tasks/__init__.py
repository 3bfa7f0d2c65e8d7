"""Prefect tasks: one stage of a release each, over partitioned Dask dataframes."""
