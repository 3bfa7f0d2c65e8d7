"""`crowdblend preview`: what a release would lose and why, without looking at its records and without spending."""

from __future__ import annotations

import json
from pathlib import Path

import click

from .options import AS_JSON, FILE, RELEASE_FOLDER

__all__ = ["preview"]


@click.command()
@click.argument("spec", type=FILE)
@click.option(
    "--public", help="Public or synthetic records with the specification's columns: file, folder, glob or URL."
)
@click.option(
    "--release",
    "released",
    type=RELEASE_FOLDER,
    help="A past release (its folder or certificate), or of a charged noisy histogram.",
)
@click.option("--separator", help="Of public CSV records; default: the specification's.")
@click.option("--population", type=click.IntRange(min=1), help="How many people the private records are of, if public.")
@click.option("--level", "wanted", multiple=True, help="Another level for a column, as age=2; may be given again.")
@click.option("--html", type=FILE, help="Also write a page with pictures into this new file.")
@AS_JSON
def preview(
    spec: Path,
    public: str | None,
    released: Path | None,
    separator: str | None,
    population: int | None,
    wanted: tuple[str, ...],
    html: Path | None,
    as_json: bool,
) -> None:
    """Foretell what a release of SPEC.toml would suppress, on records that may be looked at.

    Never on the private records: they are refused, and nothing is charged or read of them.
    """
    from .preview.tables import print_forecast
    from .preview.telling import preview as foretold
    from .preview.telling import require_place

    if html is not None:
        require_place(html, spec=spec)
    levels = dict(_level(text) for text in wanted)
    made = foretold(spec, public=public, release=released, separator=separator, population=population, levels=levels)
    if as_json:
        click.echo(json.dumps(made.facts, ensure_ascii=False))
    else:
        print_forecast(made.forecast, made.suggestions)
    if html is not None:
        made.write_page(html)
        click.echo(f"The page is in {html}.", err=True)


def _level(text: str) -> tuple[str, int]:
    """A level that was asked for as `column=level`."""
    from .preview.telling import not_a_level

    name, mark, number = text.rpartition("=")
    if not mark or not (number.isascii() and number.isdigit()):
        raise not_a_level()
    return name, int(number)
