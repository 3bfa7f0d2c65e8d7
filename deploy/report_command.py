"""`crowdblend report`: what a release keeps and risks, for the steward's eyes alone."""

from __future__ import annotations

import dataclasses
import getpass
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import click

from ..flows.settings import house
from .command_groups import CommandGroup
from .options import FILE, RELEASE_FOLDER

__all__ = ["report"]


@click.group(cls=CommandGroup)
def report() -> None:
    """Reports about releases."""


@report.command("private")
@click.argument("spec", type=FILE)
@click.argument("release", type=RELEASE_FOLDER)
@click.option("--output", type=FILE, help="File (.html) of the report; default: reports/ in the private store.")
@click.option("--target", help="Column that classifiers tell from the others; default: one with few labels.")
@click.option("--by", help="Who looks; default: the account that runs this.")
@click.option("--ledger", help="SQLAlchemy URL of the ledger (or CROWDBLEND_LEDGER).")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output: private figures too.")
def private(
    spec: Path,
    release: Path,
    output: Path | None,
    target: str | None,
    by: str | None,
    ledger: str | None,
    as_json: bool,
) -> None:
    """Measure a published RELEASE of SPEC.toml against the private records. Not for publication.

    RELEASE is its folder, or the certificate in it.

    This is a private look: it is recorded in the ledger before a record is read, and certificates of all later releases
    of the data set say that parameters may have been chosen after it.
    """
    from .private_report.making import made_private_report
    from .terminal import Stages

    stages = Stages()
    with stages.shown("count"):
        made = made_private_report(
            spec,
            release=release,
            output=output,
            target=target,
            house=house(ledger_url=ledger),
            by=by or getpass.getuser(),
            today=datetime.now(UTC).date(),
            advanced=stages.advanced,
        )
    if as_json:
        told = {"release_id": made.release_id, "report": str(made.path), "look": made.look}
        told["measures"] = dataclasses.asdict(made.measures)
        click.echo(json.dumps(told, ensure_ascii=False, default=_plain))
        return
    click.echo(
        f"The private report of release {made.release_id}: {made.path}\n"
        "It is not for publication: it has exact figures of the private records.\n"
        f"The look is entry {made.look} of the ledger. Certificates of later releases will say that parameters may "
        "have been chosen after it, which their guarantee doesn't cover."
    )


def _plain(value: object) -> object:
    """What JSON has no form for."""
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")
