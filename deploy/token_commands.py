"""`crowdblend token`: who may look at the auditors' pages, and until when."""

from __future__ import annotations

import getpass
import json
import re
import secrets
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import click

from ..flows.settings import house
from .command_groups import CommandGroup
from .options import AS_JSON, LEDGER

if TYPE_CHECKING:
    from ..accounting.ledger.tokens import TokenState

__all__ = ["token"]

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
    from ..accounting.ledger.writer import open_writer

    settled, today = house(ledger_url=ledger_url), _today()
    with open_writer(settled.ledger_url, anchoring=settled.anchoring) as writer:
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
    from ..accounting.ledger.reader import open_reader

    with open_reader(house(ledger_url=ledger_url).ledger_url) as reader:
        states, today = reader.tokens(), _today()
    rows = [
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
    from ..accounting.ledger.writer import open_writer

    settled = house(ledger_url=ledger_url)
    with open_writer(settled.ledger_url, anchoring=settled.anchoring) as writer:
        token_id = writer.revoke_token(name=name, by=getpass.getuser(), day=_today())
    click.echo(f"The token {token_id} opens nothing any more.")


def _state(state: TokenState, today: date) -> str:
    if state.revoked is not None:
        return "revoked"
    return "active" if state.opens(today) else "expired"


def _today() -> date:
    return datetime.now(UTC).date()
