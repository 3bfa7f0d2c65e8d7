"""`crowdblend release`: the releases of a ledger with their outputs, their levels and what they published."""

from __future__ import annotations

import json

import click

from ..flows.settings import house
from ..mechanisms.refusal import InputRefused
from .command_groups import CommandGroup
from .options import AS_JSON, LEDGER

__all__ = ["release"]


@click.group(cls=CommandGroup)
def release() -> None:
    """Releases with their outputs, levels and published groups."""


@release.command("list")
@click.option("--dataset", help="Of this data set alone.")
@click.option("--latest", type=click.IntRange(min=1), default=50, show_default=True, help="Releases to list.")
@click.option("--all", "everything", is_flag=True, help="List all of them.")
@LEDGER
@AS_JSON
def list_releases(dataset: str | None, latest: int, everything: bool, ledger_url: str | None, as_json: bool) -> None:
    """List the releases in the order of their charges, each with its output and its levels."""
    from ..accounting.ledger.reader import open_reader
    from .facts import FactTable, print_uncut
    from .ledger_report import tell_of_more
    from .release_listing import listed_release
    from .result_report import levels_text

    places = house(ledger_url=ledger_url)
    with open_reader(places.ledger_url) as reader:
        states = [state for state in reader.releases() if dataset in (None, state.charge.dataset)]
        ledger_id = reader.ledger_id
    listed = states if everything else states[-latest:]
    rows = [listed_release(state, home=places.home, ledger_id=ledger_id) for state in listed]
    if as_json:
        click.echo(json.dumps({"releases": rows, "release_count": len(states)}, ensure_ascii=False))
        return
    if not rows:
        click.echo("There are none.")
        return
    cells = []
    for row in rows:
        levels = "" if row["levels"] is None else levels_text(row["levels"], drawn=row["levels_drawn"])
        cells.append((row["release_id"], row["dataset"], row["day"], row["stage"], levels, row["output"] or ""))
    headers = ("release", "data set", "day", "stage", "levels", "output")
    print_uncut(FactTable(title="Releases", headers=headers, rows=tuple(cells)))
    tell_of_more(len(rows), len(states), "releases")


@release.command("show")
@click.argument("release_id")
@click.option("--groups", type=click.IntRange(min=0), default=10, show_default=True, help="Published groups to show.")
@LEDGER
@AS_JSON
def show(release_id: str, groups: int, ledger_url: str | None, as_json: bool) -> None:
    """Show one release: what it cost, where it lies, its levels, and its largest published groups.

    The groups are those of the published table, whose digest must be the one in the ledger; no record is looked at.
    """
    from ..accounting.ledger.reader import open_reader
    from .facts import FactTable, print_uncut
    from .release_cost import commands_for, cost_so_far
    from .release_listing import facts_of_release, largest_groups, listed_release

    places = house(ledger_url=ledger_url)
    with open_reader(places.ledger_url) as reader:
        state, ledger_id = reader.release(release_id), reader.ledger_id
    if state is None:
        raise InputRefused(
            "the ledger has no release of this id.",
            where=f"release '{release_id}'",
            remedy="See `crowdblend release list`.",
        )
    row = listed_release(state, home=places.home, ledger_id=ledger_id)
    largest = largest_groups(row, state, most=groups) if groups else None
    stage, cost = cost_so_far(release_id, places)
    if as_json:
        shown = None
        if largest is not None:
            shown = [dict(zip(largest.columns, values, strict=True)) for values in largest.rows]
        click.echo(json.dumps(row | {"cost": cost, "largest_groups": shown}, ensure_ascii=False))
        return
    print_uncut(facts_of_release(row, stage=state.stage, cost=cost))
    finish = f"crowdblend run SPEC.toml --release-id {release_id}"
    for way in commands_for(release_id, stage, finish=finish, ledger=ledger_url):
        click.echo(way)
    if largest is not None:
        title = f"\nIts {len(largest.rows)} largest groups, of {largest.groups:,}"
        cells = tuple(tuple(map(str, values)) for values in largest.rows)
        print_uncut(FactTable(title=title, headers=largest.columns, rows=cells))
    elif groups and row["levels"]:
        click.echo("No groups are shown: it published none, or the table isn't there as it was published.")
