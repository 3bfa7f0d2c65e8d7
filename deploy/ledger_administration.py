"""`crowdblend ledger migrate` and `ledger roles`: what the owner of a ledger's tables does, and nobody else."""

from __future__ import annotations

import json

import click

from ..flows.settings import house
from ..mechanisms.refusal import InputRefused
from .ledger_commands import ledger
from .options import AS_JSON, LEDGER

__all__ = ["ledger", "migrate", "roles"]


@click.command()
@LEDGER
@AS_JSON
def migrate(ledger_url: str | None, as_json: bool) -> None:
    """Bring an earlier version's ledger to this version's tables; its entries stay as they are.

    It is one transaction: the ledger must continue its anchor and must verify afterwards, or nothing is changed. Back
    it up first. On PostgreSQL give the owner's address, and repeat `ledger roles` afterwards.
    """
    from ..accounting.ledger.migration import migrate_ledger

    settled = house(ledger_url=ledger_url)
    done = migrate_ledger(settled.ledger_url, anchoring=settled.anchoring)
    if as_json:
        click.echo(json.dumps({"before": done.before, "after": done.after, "entries": done.entries}))
    elif done.before == done.after:
        click.echo(f"The ledger has schema revision {done.after} already: nothing was done.")
    else:
        click.echo(
            f"The ledger went from schema revision {done.before} to {done.after}. Its {done.entries} entries are as "
            "they were, and it verifies."
        )


@click.command()
@click.option("--writer", required=True, help="The role that runs releases: SELECT and INSERT.")
@click.option("--auditor", required=True, help="The role that looks: SELECT.")
@click.option("--apply", is_flag=True, help="Do it; without this the statements are only printed.")
@LEDGER
def roles(writer: str, auditor: str, apply: bool, ledger_url: str | None) -> None:
    """Limit two roles of a PostgreSQL server to what they need; the owner of the tables is a third.

    Both must exist. The database should hold the ledger alone: what everybody may do in it by default is taken away.
    """
    from ..accounting.ledger.roles import Roles, grant_roles

    try:
        wanted = Roles(writer=writer, auditor=auditor)
    except ValueError as error:
        raise InputRefused(f"{error}.", where="--writer, --auditor") from None
    settled = house(ledger_url=ledger_url)
    statements = grant_roles(settled.ledger_url, wanted, anchoring=settled.anchoring, apply=apply)
    for statement in statements:
        click.echo(f"{statement};")
    if apply:
        click.echo(f"Done: '{writer}' appends, '{auditor}' looks, and neither can do more.", err=True)
    else:
        click.echo("Nothing was changed; --apply does it.", err=True)


for command in (migrate, roles):
    ledger.add_command(command)
