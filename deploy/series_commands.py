"""`crowdblend series`: several releases with fixed parameters, paid for together."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ..flows.settings import house
from .command_groups import CommandGroup
from .options import AS_JSON, LEDGER

__all__ = ["series"]


@click.group(cls=CommandGroup)
def series() -> None:
    """Series: several releases with fixed parameters, paid for together when they are registered."""


@series.command("add")
@click.argument("name")
@click.argument("spec", type=click.Path(path_type=Path))
@click.option("--releases", type=click.IntRange(min=1), required=True, help="How many releases the series has.")
@LEDGER
@AS_JSON
def add(name: str, spec: Path, releases: int, ledger_url: str | None, as_json: bool) -> None:
    """Register a series and charge it whole; [privacy].delta is for all its releases together.

    Its releases run with `crowdblend run SPEC --series NAME`. Their specifications may differ in name, source,
    format and output, and in nothing else.
    """
    from ..mechanisms.amount_format import amount_shown, counted
    from .ledger_api import add_series
    from .series_report import series_rows

    state = add_series(name, spec, releases=releases, ledger_url=ledger_url)
    price = state.registered.price
    [row] = series_rows([state])
    if as_json:
        click.echo(json.dumps(row, ensure_ascii=False))
        return
    click.echo(
        f"Series '{name}' of {counted(releases, 'release')} is charged to '{row['dataset']}': "
        f"ε = {amount_shown(price.epsilon)}, δ = {amount_shown(price.delta)} for all of them.\n"
        f"Run each with: crowdblend run {spec} --series {name}"
    )


@series.command("list")
@LEDGER
@AS_JSON
def list_series(ledger_url: str | None, as_json: bool) -> None:
    """List the series with what remains of them."""
    from ..accounting.ledger.reader import open_reader
    from .series_report import print_series, series_rows

    with open_reader(house(ledger_url=ledger_url).ledger_url) as reader:
        rows = series_rows(reader.all_series())
    if as_json:
        click.echo(json.dumps({"series": rows}, ensure_ascii=False))
    else:
        print_series(rows)
