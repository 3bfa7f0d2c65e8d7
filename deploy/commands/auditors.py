"""`crowdblend dashboard`, `token`, `key` and `witness`: the auditors' pages, who may look, the keys, and a witness."""

from __future__ import annotations

import getpass
import ipaddress
import json
import re
import secrets
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from ...flows.paths import reader_of, resolve_paths
from ...mechanisms.kernel.errors import InputRefused
from .options import AS_JSON, FILE, LEDGER, CommandGroup, until_interrupted

if TYPE_CHECKING:
    from ...accounting.dashboard.server.access import Network
    from ...accounting.kernel.ledger.ledger_state import Token
    from ...accounting.ledger.checkpoint import NoteKey
    from ..schemas.outputs import KeysShown, TokenRow


FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)
EXISTING_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command()
@LEDGER
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option("--port", type=click.IntRange(0, 65535), default=8720, show_default=True, help="0: any that is free.")
@click.option("--public-name", "public_names", multiple=True, help="Host name by which others ask; tokens are needed.")
@click.option("--require-token", is_flag=True, help="Ask for a token on this machine too.")
@click.option("--proxy", "proxies", multiple=True, help="Address or network of a reverse proxy that names visitors.")
@click.option("--proxy-header", default="X-Forwarded-User", show_default=True, help="The header in which it does.")
@click.option("--releases", type=FOLDER, multiple=True, help="Folder of published releases: gives out certificates.")
@click.option("--anchor", type=EXISTING_FILE, help="A copy of the anchor, to hold the chain against.")
@click.option("--public-key", type=EXISTING_FILE, help="PEM file of the keys that may have signed it.")
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
    from ...accounting.dashboard.server.access import Options, is_loopback
    from ...accounting.dashboard.server.app import serve, to_standard_error
    from ...accounting.keys.signing_upkeep import read_public_keys

    options = Options(
        ledger_url=resolve_paths(ledger_url=ledger_url).ledger_url,
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
    with until_interrupted():
        serve(options, write=to_standard_error, ready=lambda address: click.echo(f"The auditors' pages: {address}"))


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        raise InputRefused("this is neither an address nor a network.", where="--proxy") from None


MOST_DAYS = 3650


class Expiry(click.ParamType[timedelta]):
    """A number of days, such as 90d."""

    name = "days"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Read the days, or fail with the option's name."""
        found = re.fullmatch(r"([0-9]{1,4})d", str(value))
        if found is None or not 1 <= int(found[1]) <= MOST_DAYS:
            self.fail(f"write the days that it lasts, from 1d to {MOST_DAYS}d", param, ctx)
        return timedelta(days=int(found[1]))


@click.group(cls=CommandGroup)
def token() -> None:
    """Tokens of the auditors' pages (crowdblend dashboard)."""


@token.command("add")
@click.argument("name")
@click.option("--expires", type=Expiry(), required=True, help="How long it lasts, for example 90d.")
@LEDGER
@AS_JSON
def add(name: str, expires: timedelta, ledger_url: str | None, as_json: bool) -> None:
    """Let somebody look; prints the token once, and the ledger keeps its digest alone."""
    from ...accounting.ledger.ledger_writer import open_writer

    state_paths, today = resolve_paths(ledger_url=ledger_url), _today()
    with open_writer(state_paths.ledger_url, anchoring=state_paths.anchoring) as writer:
        text = writer.add_token(
            name=name, expires=today + expires, by=getpass.getuser(), day=today, randomness=secrets.token_bytes
        )
    if as_json:
        click.echo(json.dumps({"name": name, "expires": (today + expires).isoformat(), "token": text}))
        return
    click.echo(text)
    click.echo(
        f"This is the token of '{name}'. It is shown once, and opens the auditors' pages until "
        f"{today + expires - timedelta(days=1)}: in a browser as the password, with any user name.",
        err=True,
    )


@token.command("list")
@LEDGER
@AS_JSON
def list_tokens(ledger_url: str | None, as_json: bool) -> None:
    """List the tokens with their days; their secrets are known to nobody but their holders."""

    with reader_of(resolve_paths(ledger_url=ledger_url)) as reader:
        states, today = reader.tokens(), _today()
    rows: list[TokenRow] = [
        {
            "token_id": state.added.token_id,
            "name": state.added.name,
            "added": state.added.day.isoformat(),
            "expires": state.added.expires.isoformat(),
            "state": _state(state, today),
        }
        for state in states
    ]
    if as_json:
        click.echo(json.dumps({"tokens": rows}, ensure_ascii=False))
        return
    for row in rows:
        last = date.fromisoformat(row["expires"]) - timedelta(days=1)
        click.echo(f"{row['token_id']}  {row['state']:8}  until {last}  {row['name']}")
    if not rows:
        click.echo("There are none. Add one with: crowdblend token add NAME --expires 90d")


@token.command("revoke")
@click.argument("name")
@LEDGER
def revoke(name: str, ledger_url: str | None) -> None:
    """Revoke a token by its NAME or id; it opens nothing from the next request on."""
    from ...accounting.ledger.ledger_writer import open_writer

    state_paths = resolve_paths(ledger_url=ledger_url)
    with open_writer(state_paths.ledger_url, anchoring=state_paths.anchoring) as writer:
        token_id = writer.revoke_token(name=name, by=getpass.getuser(), day=_today())
    click.echo(f"The token {token_id} opens nothing any more.")


def _state(state: Token, today: date) -> Literal["active", "expired", "revoked"]:
    if state.revoked is not None:
        return "revoked"
    return "active" if state.opens(today) else "expired"


def _today() -> date:
    return datetime.now(UTC).date()


@click.group(cls=CommandGroup)
def key() -> None:
    """The signing keys of the private store (CROWDBLEND_HOME)."""


@key.command("show")
@AS_JSON
def show(as_json: bool) -> None:
    """Show the public keys with their ids: the one that signs now, then the earlier ones."""
    keys = resolve_paths().anchoring.keys
    keys.current()
    current, *earlier = keys.public_keys()
    if as_json:
        shown: KeysShown = {
            "current": current.key_id,
            "keys": [{"key_id": public.key_id, "public_key": public.raw.hex()} for public in (current, *earlier)],
        }
        click.echo(json.dumps(shown))
        return
    click.echo(f"{current.key_id}  {current.raw.hex()}  signs now")
    for public in earlier:
        click.echo(f"{public.key_id}  {public.raw.hex()}  earlier")


@key.command("rotate")
def rotate() -> None:
    """Let a fresh key sign from now on; the public keys of earlier ones stay listed."""
    from ...accounting.keys.signing_upkeep import rotate_key

    public = rotate_key(resolve_paths().anchoring.keys, secrets.token_bytes)
    click.echo(f"The key {public.key_id} signs from now on. Publish it: crowdblend key export FILE")


@key.command("export")
@click.argument("file", type=FILE)
@click.option("--all", "with_earlier", is_flag=True, help="The earlier public keys too, after the one that signs now.")
def export(file: Path, with_earlier: bool) -> None:
    """Write the public key to FILE, in PEM, for those who verify certificates and anchors."""
    from ...accounting.keys.signing_upkeep import pem_of
    from ..release_paths import write_new

    keys = resolve_paths().anchoring.keys
    keys.current()
    public_keys = keys.public_keys() if with_earlier else keys.public_keys()[:1]
    write_new(file, b"".join(pem_of(public) for public in public_keys).decode("ascii"))
    click.echo(f"Wrote {', '.join(public.key_id for public in public_keys)} to {file}.")


@click.group(cls=CommandGroup)
def witness() -> None:
    """A witness of others' ledgers, on a machine of its own: it remembers the last head of each."""


@witness.command("add")
@click.argument("key_text", metavar="KEY")
@click.argument("url")
@click.option("--enough", type=click.IntRange(min=1), help="How many of them must cosign; default: all.")
@LEDGER
def add_witness(key_text: str, url: str, enough: int | None, ledger_url: str | None) -> None:
    """Let a witness count for this ledger: its verifier KEY (`witness key` prints it) and the URL where it is asked.

    The list lies beside the ledger's anchor; `ledger anchor` asks those in it, and `ledger verify` checks what they
    cosigned. Have the KEY in a way that can be trusted.
    """
    from ...accounting.ledger.witnessed import name_witness

    state_paths = resolve_paths(ledger_url=ledger_url)
    with reader_of(state_paths) as reader:
        ledger_id = reader.ledger_id
    file = state_paths.anchoring.anchor_of(ledger_id).path.with_suffix(".witnesses")
    members, needed = name_witness(file, key=key_text, url=url, enough=enough)
    click.echo(
        f"{needed} of {members} witnesses must cosign: {file}\nHave the head witnessed: crowdblend ledger anchor"
    )


NAME = click.option(
    "--name", required=True, help="The witness's name, for ever: such as witness.example.org/1, without spaces and +."
)


@witness.command("key")
@NAME
def witness_key(name: str) -> None:
    """Print the witness's verifier key, which is made where there is none; those who rely on it need it."""
    from ..serving.witness import witness_key as key_of_witness

    click.echo(key_of_witness(_witness_home(), name, secrets.token_bytes).text)


@witness.command("serve")
@NAME
@click.option(
    "--ledger",
    "ledgers",
    multiple=True,
    required=True,
    metavar="KEY",
    help="Verifier key of a ledger that it watches, as `crowdblend ledger key` prints it; may be repeated.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option("--port", type=click.IntRange(0, 65535), default=8721, show_default=True, help="0: any that is free.")
@click.option("--tls-certificate", type=EXISTING_FILE, help="PEM file of the certificate; without it plain HTTP.")
@click.option("--tls-key", type=EXISTING_FILE, help="PEM file of the certificate's private key.")
def serve_witness(
    name: str,
    ledgers: tuple[str, ...],
    host: str,
    port: int,
    tls_certificate: Path | None,
    tls_key: Path | None,
) -> None:
    """Cosign the heads of ledgers until interrupted, each only where it continues the last one that was cosigned.

    Key and memory lie in CROWDBLEND_HOME/witness. The steward of the ledger must not be able to write there.
    """
    from ..serving.witness import serve
    from ..serving.witness import witness_key as key_of_witness

    if (tls_certificate is None) != (tls_key is None):
        raise InputRefused("a certificate and its key go together.", where="--tls-certificate", not_done="")
    logs = tuple(_key_of_ledger(text) for text in ledgers)
    own = key_of_witness(_witness_home(), name, secrets.token_bytes)
    tls = None if tls_certificate is None or tls_key is None else (tls_certificate, tls_key)

    def ready(address: str) -> None:
        click.echo(f"{own.text}\nThe witness {name}: {address}")

    with until_interrupted():
        serve(_witness_home(), key=own, logs=logs, host=host, port=port, tls=tls, ready=ready)


def _witness_home() -> Path:
    return resolve_paths().home / "witness"


def _key_of_ledger(text: str) -> NoteKey:
    from ...accounting.ledger.checkpoint import PLAIN, read_note_key

    try:
        key = read_note_key(text)
    except ValueError as error:
        raise InputRefused(f"this is no verifier key: {error}.", where="--ledger", not_done="") from None
    if key.kind != PLAIN:
        raise InputRefused("this is a witness's key, not a ledger's.", where="--ledger", not_done="")
    return key
