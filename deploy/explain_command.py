"""`crowdblend explain`: what a specification means and costs, before anything is spent or read."""

from __future__ import annotations

import json
from pathlib import Path

import click

__all__ = ["explain", "tell_explanation"]


@click.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option("--releases", type=click.IntRange(min=1), default=1, help="Price a series of so many releases.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def explain(spec: Path, releases: int, as_json: bool) -> None:
    """Explain SPEC.toml: how many maps, what each level means, what it costs. No record is read, nothing is charged."""
    tell_explanation(spec, releases=releases, as_json=as_json)


def tell_explanation(spec: Path, *, releases: int, as_json: bool) -> None:
    """Say what a specification means and costs.

    Args:
        spec: the file.
        releases: how many releases of it are priced together.
        as_json: one JSON object instead of tables.

    Raises:
        InputRefused: the specification is wrong.
    """
    from ..flows.spec import read_spec
    from .explanation import explanation, print_explanation

    explained = explanation(read_spec(spec, output=spec.parent, releases=releases))
    if as_json:
        click.echo(json.dumps(explained, ensure_ascii=False))
        return
    print_explanation(explained)
