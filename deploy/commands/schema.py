"""`crowdblend schema`: the JSON Schemas of what is read and written."""

from __future__ import annotations

import json
from pathlib import Path

import click

__all__ = ["schema", "schema_text"]

FOLDER = Path(__file__).resolve().parents[1] / "schemas"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


def schema_text(name: str) -> str:
    """The text of a schema, as it came with this version."""
    return (FOLDER / f"{name}.json").read_text(encoding="utf-8")


@click.command()
@click.argument("name", required=False, metavar="[NAME]", type=click.Choice(NAMES))
def schema(name: str | None) -> None:
    """Print the JSON Schema of a document or of a command's --json; without a NAME list them.

    NAME is specification, certificate, ledger-export (of one line), or the words of a command: release-list.
    """
    if name is not None:
        click.echo(schema_text(name), nl=False)
        return
    for one in NAMES:
        click.echo(f"{one:{max(map(len, NAMES))}}  {json.loads(schema_text(one))['title']}")
