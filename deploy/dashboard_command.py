"""`crowdblend dashboard`: the auditors' read-only pages."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..flows.settings import house
from ..mechanisms.refusal import InputRefused
from .options import LEDGER

if TYPE_CHECKING:
    from ..accounting.dashboard.options import Network

__all__ = ["dashboard"]

FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)
FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command()
@LEDGER
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option("--port", type=click.IntRange(0, 65535), default=8720, show_default=True, help="0: any that is free.")
@click.option("--public-name", "public_names", multiple=True, help="Host name by which others ask; tokens are needed.")
@click.option("--require-token", is_flag=True, help="Ask for a token on this machine too.")
@click.option("--proxy", "proxies", multiple=True, help="Address or network of a reverse proxy that names visitors.")
@click.option("--proxy-header", default="X-Forwarded-User", show_default=True, help="The header in which it does.")
@click.option("--releases", type=FOLDER, multiple=True, help="Folder of published releases: gives out certificates.")
@click.option("--anchor", type=FILE, help="A copy of the anchor, to hold the chain against.")
@click.option("--public-key", type=FILE, help="PEM file of the keys that may have signed it.")
@click.option("--hold-back", type=float, default=0.0, help="Minutes: show the ledger as at the last whole interval.")
def dashboard(
    ledger_url: str | None,
    host: str,
    port: int,
    public_names: tuple[str, ...],
    require_token: bool,
    proxies: tuple[str, ...],
    proxy_header: str,
    releases: tuple[Path, ...],
    anchor: Path | None,
    public_key: Path | None,
    hold_back: float,
) -> None:
    """Serve the auditors' pages until interrupted: what was promised, spent and released, and whether it holds.

    On this machine alone they are open; for others they need tokens (crowdblend token add).
    """
    if public_key is not None and anchor is None:
        raise InputRefused("a public key checks an anchor, and none is given.", where="--public-key")
    from ..accounting.dashboard.observing import to_standard_error
    from ..accounting.dashboard.options import Options, is_loopback
    from ..accounting.dashboard.serving import serve
    from ..accounting.ledger.signing import read_public_keys

    options = Options(
        ledger_url=house(ledger_url=ledger_url).ledger_url,
        host=host,
        port=port,
        public_names=tuple(name.lower() for name in public_names),
        require_token=require_token,
        proxies=tuple(_network(text) for text in proxies),
        proxy_header=proxy_header,
        releases=tuple(folder.absolute() for folder in releases),
        anchor=None if anchor is None else anchor.absolute(),
        anchor_keys=() if public_key is None else read_public_keys(public_key),
        hold_back_minutes=hold_back,
    )
    if not is_loopback(host):
        click.echo("crowdblend: tokens travel as they are sent: let others in through TLS only.", err=True)
    serve(options, write=to_standard_error, ready=lambda address: click.echo(f"The auditors' pages: {address}"))


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        raise InputRefused("this is neither an address nor a network.", where="--proxy") from None
