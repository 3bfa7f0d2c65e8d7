"""`crowdblend explain`: what a specification means and costs, before anything is spent or read."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ..flows.settings import House, house

__all__ = ["explain", "tell_explanation"]


@click.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option("--releases", type=click.IntRange(min=1), default=1, help="Price a series of so many releases.")
@click.option("--ledger", help="SQLAlchemy URL of the ledger (or CROWDBLEND_LEDGER).")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def explain(spec: Path, releases: int, ledger: str | None, as_json: bool) -> None:
    """Explain SPEC.toml: what each level means, what it costs, what it would leave of the budget.

    What would be refused now, such as a missing column, is told too. No record is read and nothing is charged: of the
    source only file names, CSV headers and Parquet footers are looked at.
    """
    tell_explanation(spec, releases=releases, places=house(ledger_url=ledger), as_json=as_json)


def tell_explanation(spec: Path, *, releases: int, places: House, as_json: bool) -> None:
    """Say what a specification means and costs.

    Args:
        spec: the file.
        releases: how many releases of it are priced together.
        places: where the ledger lies; there need be none.
        as_json: one JSON object instead of tables.

    Raises:
        InputRefused: the specification is wrong.
    """
    from ..flows.spec import read_spec
    from .explanation import explanation, print_explanation
    from .readiness import readiness, readiness_lines

    request = read_spec(spec, output=spec.parent, releases=releases)
    explained = explanation(request) | readiness(request, house=places)
    if as_json:
        click.echo(json.dumps(explained, ensure_ascii=False))
        return
    print_explanation(explained)
    for line in readiness_lines(explained):
        click.echo(line)
    click.echo("No record was read, and nothing was charged.")
