"""A command: tosses a coin that is always heads."""

import click


@click.command()
def coin() -> None:
    """Say how a coin fell."""
    click.echo("heads")
