"""`crowdblend sheet`: what researchers may be told of a release, beside it and not in it."""

from __future__ import annotations

import json
from pathlib import Path

import click

from .options import FILE, RELEASE_FOLDER, default_publisher

__all__ = ["sheet"]


@click.command()
@click.argument("release", type=RELEASE_FOLDER)
@click.option(
    "--output",
    type=FILE,
    default=Path(),
    help="Folder for the two files, made where there is none; default: the working folder.",
)
@click.option("--public-key", type=FILE, help="PEM file of the publisher's public key, to check the certificate with.")
@click.option("--publisher", help="Who publishes the release, for the citation.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def sheet(release: Path, output: Path, public_key: Path | None, publisher: str | None, as_json: bool) -> None:
    """Write a sheet for researchers about a release, as HTML and as Markdown.

    RELEASE is its folder, or the certificate in it. The sheet has what the release publishes and nothing else, and may
    be handed out with it; but it isn't part of it, so it is written elsewhere.
    """
    from .sheet.writing import write_sheet

    html, markdown = write_sheet(
        release,
        output=output,
        public_key=public_key,
        publisher=publisher or default_publisher(),
    )
    if as_json:
        click.echo(json.dumps({"html": str(html), "markdown": str(markdown)}, ensure_ascii=False))
        return
    click.echo(f"The sheet is in {html} and {markdown}.")
