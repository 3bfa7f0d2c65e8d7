"""`crowdblend studio`: a release made in the browser, for who has never seen a specification."""

from __future__ import annotations

import html
import threading
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...flows.paths import resolve_paths
from .options import FILE, LEDGER, until_interrupted

if TYPE_CHECKING:
    from ..studio.draft import StudioFolder


@click.command()
@LEDGER
@click.option("--port", type=click.IntRange(0, 65535), default=8730, show_default=True, help="0: any that is free.")
@click.option(
    "--folder",
    type=FILE,
    default="crowdblend-studio",
    show_default=True,
    help="Where the specification and its hierarchies are written; made for you alone where there is none.",
)
@click.option("--no-browser", is_flag=True, help="Print the address alone.")
@click.option(
    "--approvers", type=FILE, help="PEM file of public keys: one of their owners has to approve each release."
)
def studio(ledger_url: str | None, port: int, folder: Path, no_browser: bool, approvers: Path | None) -> None:
    """Make a release in the browser: file, columns, price, run, result.

    The pages are this machine's alone. The address that is printed has a token that opens them once; start the studio
    again for another. What is made is a specification, draft.toml, which `run` takes like any other.
    """
    from ...accounting.keys.signing_upkeep import read_public_keys
    from ..studio.studio_server import serve_studio

    def ready(address: str, held: StudioFolder) -> None:
        click.echo(f"The studio is open, once, at {address}\nIt writes to {held.folder}. Ctrl-C ends it.")
        if not no_browser:
            # PRIVACY: a browser's arguments can be read by all users of this machine; a file of the folder can't.
            held.write("open.html", f'<meta http-equiv="refresh" content="0;url={html.escape(address)}">\n')
            place = (held.folder / "open.html").as_uri()
            threading.Thread(
                target=webbrowser.open, args=(place,), daemon=True
            ).start()  # some browsers keep it waiting

    places = resolve_paths(ledger_url=ledger_url)
    if approvers is not None:
        read_public_keys(approvers)  # refused before the pages open
        places = replace(places, approvers=approvers.absolute())
    with until_interrupted():
        serve_studio(folder, places, port=port, ready=ready)
