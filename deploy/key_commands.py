"""`crowdblend key`: the keys that sign certificates and the heads of ledgers."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

import click

from ..flows.settings import house
from ..mechanisms.refusal import InputRefused
from .command_groups import CommandGroup

__all__ = ["key"]


@click.group(cls=CommandGroup)
def key() -> None:
    """The signing keys of the private store (CROWDBLEND_HOME)."""


@key.command("show")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def show(as_json: bool) -> None:
    """Show the public keys with their ids: the one that signs now, then the earlier ones."""
    keys = house().anchoring.keys
    keys.current()
    current, *earlier = keys.public_keys()
    if as_json:
        listed = [{"key_id": public.key_id, "public_key": public.raw.hex()} for public in (current, *earlier)]
        click.echo(json.dumps({"current": current.key_id, "keys": listed}))
        return
    click.echo(f"{current.key_id}  {current.raw.hex()}  signs now")
    for public in earlier:
        click.echo(f"{public.key_id}  {public.raw.hex()}  earlier")


@key.command("rotate")
def rotate() -> None:
    """Let a fresh key sign from now on; the public keys of earlier ones stay listed."""
    public = house().anchoring.keys.rotate(secrets.token_bytes)
    click.echo(f"The key {public.key_id} signs from now on. Publish it: crowdblend key export FILE")


@key.command("export")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--all", "with_earlier", is_flag=True, help="The earlier public keys too, after the one that signs now.")
def export(file: Path, with_earlier: bool) -> None:
    """Write the public key to FILE, in PEM, for those who verify certificates and anchors."""
    keys = house().anchoring.keys
    keys.current()
    public_keys = keys.public_keys() if with_earlier else keys.public_keys()[:1]
    try:
        with file.open("xb") as made:
            made.write(b"".join(public.pem for public in public_keys))
    except OSError as error:
        raise InputRefused(f"the file can't be written ({error.strerror}).", where=str(file)) from None
    click.echo(f"Wrote {', '.join(public.key_id for public in public_keys)} to {file}.")
