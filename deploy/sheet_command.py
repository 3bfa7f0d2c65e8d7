"""`crowdblend sheet`: what researchers may be told of a release, beside it and not in it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click

from .options import default_public_key, default_publisher

__all__ = ["sheet"]

FILE = click.Path(path_type=Path)


@click.command()
@click.argument("release", type=FILE)
@click.option("--output", type=FILE, default=Path(), help="Folder for the two files; default: the working folder.")
@click.option("--public-key", type=FILE, help="PEM file of the publisher's public key, to check the certificate with.")
@click.option("--publisher", help="Who publishes the release, for the citation.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def sheet(release: Path, output: Path, public_key: Path | None, publisher: str | None, as_json: bool) -> None:
    """Write a sheet for researchers about the release in the folder RELEASE, as HTML and as Markdown.

    It has what the release publishes and nothing else, and may be handed out with it; but it isn't part of it, so it
    is written elsewhere.
    """
    from ..accounting.ledger.signing import read_public_keys
    from .documents.rendering import page, plain_text
    from .placing import require_elsewhere, write_new
    from .sheet.citation import bibtex, citation
    from .sheet.facts import sheet_facts
    from .sheet.snippets import snippets

    public_key = public_key or default_public_key()
    publisher = publisher or default_publisher()
    trusted = None if public_key is None else read_public_keys(public_key)
    facts = sheet_facts(release, trusted=trusted)
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", facts.certificate["release_id"])
    html, markdown = output / f"{stem}-sheet.html", output / f"{stem}-sheet.md"
    for place in (html, markdown):
        require_elsewhere(place)
    context = {
        "facts": facts,
        "certificate": facts.certificate,
        "snippets": snippets(facts),
        "citation": citation(facts, publisher=publisher),
        "bibtex": bibtex(facts, publisher=publisher),
        "publisher": publisher,
    }
    write_new(html, page("sheet.html", **context))
    write_new(markdown, plain_text("sheet.md", **context))
    if as_json:
        click.echo(json.dumps({"html": str(html), "markdown": str(markdown)}, ensure_ascii=False))
        return
    click.echo(f"The sheet is in {html} and {markdown}.")
