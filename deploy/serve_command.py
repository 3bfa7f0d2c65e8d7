"""`crowdblend serve`: a series' releases on a schedule, by one machine alone."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ..flows.settings import House, house
from ..mechanisms.refusal import InputRefused

__all__ = ["serve"]


@click.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option("--series", required=True, help="The series whose releases these are.")
@click.option("--cron", required=True, help='When, as five fields of cron in UTC: "0 3 1 * *" is each month\'s first.')
@click.option("--output", required=True, help="Folder or URL below which each release lies under its id.")
@click.option("--ledger", help="SQLAlchemy URL of the ledger (or CROWDBLEND_LEDGER).")
def serve(spec: Path, series: str, cron: str, output: str, ledger: str | None) -> None:
    """Stay and run a release of a series whenever its time has come, one at a time.

    Uses the Prefect server of PREFECT_API_URL, or one of its own whose records are kept in the private store.
    """
    places = house(ledger_url=ledger)
    _check(spec, series=series, places=places)
    os.environ["CROWDBLEND_LEDGER"] = places.ledger_url
    os.environ["CROWDBLEND_HOME"] = str(places.home)
    if places.anchor is not None:
        os.environ["CROWDBLEND_ANCHOR"] = str(places.anchor)
    from .prefect_environment import settle_lasting_prefect

    wait = settle_lasting_prefect(places.home)
    wait()
    from prefect.types.entrypoint import EntrypointType

    from .scheduled import scheduled_release

    target = output if "://" in output else str(Path(output).absolute())
    try:
        scheduled_release.serve(
            name=series,
            cron=cron,
            parameters={"spec": str(spec.absolute()), "series": series, "output": target},
            limit=1,
            entrypoint_type=EntrypointType.MODULE_PATH,
            print_starting_message=False,
            pause_on_shutdown=False,
        )
    except ValueError as error:
        raise InputRefused(f"the schedule is refused ({error}).", where="--cron") from None


def _check(spec: Path, *, series: str, places: House) -> None:
    """See now what would refuse every release: the specification, the ledger, the series."""
    from ..accounting.ledger.reader import open_reader
    from ..flows.spec import read_spec

    with open_reader(places.ledger_url) as reader:
        state = reader.series(series)
    read_spec(spec, output=spec.parent, releases=state.registered.price.releases)
