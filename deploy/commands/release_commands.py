"""`crowdblend run`, `demo`, `abandon`, `verify` and `release`: releases and what becomes of them."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...flows.paths import StatePaths, reader_of, resolve_paths
from ...mechanisms.kernel.errors import InputRefused
from .options import AS_JSON, FILE, LEDGER, NEW, RELEASE_CERTIFICATE, CommandGroup, begins_another, print_refusal

if TYPE_CHECKING:
    from ..schemas.outputs import ReleaseVerified, ShownRelease


@click.command()
@click.argument("spec", type=FILE)
@LEDGER
@click.option("--output", help="Folder or fsspec URL of the release, instead of [release].output.")
@click.option("--scheduler", help="Address of a Dask scheduler; without one this machine's threads count.")
@click.option(
    "--release-id",
    help="Run, resume or look up the release of this id; without one each run is a new release.",
)
@click.option(
    "--series",
    help="Run the next release of this series, which was charged when it was registered; NAME:2 of its second part.",
)
@NEW
@click.option(
    "--rehearse",
    is_flag=True,
    help="Instead of the release, for a twentieth of its ε, count noisily how many values of each column become *.",
)
@click.option("--dry-run", is_flag=True, help="Check all that comes before the charge, say what it would be, and stop.")
@AS_JSON
def run(
    spec: Path,
    ledger_url: str | None,
    output: str | None,
    scheduler: str | None,
    release_id: str | None,
    series: str | None,
    new: bool,
    rehearse: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Run one release: SPEC.toml in, a published table and its certificate out.

    Where an earlier release of the same specification was cut off, it is named and nothing is charged.
    """
    if rehearse and series is not None:
        raise click.UsageError("--rehearse is charged for itself: leave out --series.")
    places = resolve_paths(ledger_url=ledger_url)
    another = begins_another(new=new, release_id=release_id)
    asked: dict[str, Any] = {"release_id": release_id, "series": series, "new": another, "rehearse": rehearse}
    if dry_run:
        from ...flows.prepare import prepare
        from ...tasks.destinations import output_at
        from ..readiness import print_dry_run

        place = None if output is None else output_at(output, base=Path.cwd())
        with prepare(spec, state_paths=places, output=place, dry=True, **asked) as prepared:
            print_dry_run(prepared, as_json=as_json)
        return 0
    return run_and_print(
        spec, places=places, output=output, scheduler=scheduler, ledger_url=ledger_url, as_json=as_json, asked=asked
    )


def run_and_print(
    spec: Path,
    *,
    places: StatePaths,
    output: str | None,
    scheduler: str | None,
    ledger_url: str | None,
    as_json: bool,
    asked: Mapping[str, Any],
) -> int:
    """Run a release and print its result; where it is interrupted, print what it has cost and what finishes it.

    Args:
        spec: the specification's file.
        places: where ledger and private store lie.
        output: instead of the specification's.
        scheduler: address of a Dask scheduler; None for none.
        ledger_url: of the ledger, where it was given as an option.
        as_json: whether to print one JSON object.
        asked: `run_release`'s release_id, series, new and rehearse.
    """
    from ..run import run_release
    from ..terminal.stages import Stages, process_begun

    stages = Stages(begun=process_begun())
    try:
        result = run_release(
            spec,
            state_paths=places,
            output=output,
            scheduler=scheduler,
            randomness=secrets.token_bytes,
            stages=stages,
            **asked,
        )
    except KeyboardInterrupt:
        if stages.release_id is None:
            raise
        from ...flows.unfinished import run_command

        again = {"output": output, "scheduler": scheduler, "series": asked["series"], "ledger": ledger_url}
        finish = run_command(spec, release_id=stages.release_id, rehearse=asked["rehearse"], **again)
        return _print_interruption(stages.release_id, places, finish=finish, ledger=ledger_url, as_json=as_json)
    print_result(result, as_json=as_json)
    return 0


def _print_interruption(release_id: str, places: StatePaths, *, finish: str, ledger: str | None, as_json: bool) -> int:
    """Say what a release that was broken off has cost, and the commands that finish it or give it up."""
    from ...flows.unfinished import commands_for, cost_so_far

    stage, cost = cost_so_far(release_id, places)
    lines = (f"Interrupted. {cost}", *commands_for(release_id, stage, finish=finish, ledger=ledger))
    where = f"release '{release_id}'"
    return print_refusal(*lines, where=where, exit_code=1, as_json=as_json, release_id=release_id)


def print_result(result: Mapping[str, Any], *, as_json: bool) -> None:
    """Say what was published and what it cost."""
    if as_json:
        click.echo(json.dumps(result, ensure_ascii=False))
        return
    from ..run import result_text

    click.echo(result_text(result))


@click.command()
@click.option("--output", type=FILE, help="Folder for the demonstration; default: a new one below crowdblend-demo.")
def demo(output: Path | None) -> None:
    """Make two releases from 29,501 records of the US Census 2000, with a ledger of the demonstration's own."""
    from ..demonstration import lay_out, open_demonstration_ledger, tell
    from ..run import run_release

    folder = (output or Path("crowdblend-demo") / secrets.token_hex(4)).absolute()
    if os.path.lexists(folder):  # false for what can't be looked at, which can't be made either
        raise InputRefused("this exists already.", where=str(folder), remedy="Name a folder that doesn't exist.")
    try:
        folder.mkdir(parents=True)
        specs = lay_out(folder)
    except OSError as error:
        raise InputRefused(f"the folder can't be written ({error.strerror}).", where=str(folder)) from None
    own = StatePaths(ledger_url=f"sqlite:///{folder / 'ledger.db'}", home=folder / "private")
    open_demonstration_ledger(own)
    sampled, deletion = (
        run_release(
            spec,
            state_paths=own,
            output=None,
            scheduler=None,
            release_id=f"{name}-{secrets.token_hex(6)}",
            randomness=secrets.token_bytes,
        )
        for name, spec in zip(("demo", "demo-deletion"), specs, strict=True)
    )
    tell(sampled, deletion=deletion, folder=folder)


@click.command()
@click.argument("release_id")
@click.option("--reason", required=True, help="Why, in one line; it is recorded for ever.")
@LEDGER
def abandon(release_id: str, reason: str, ledger_url: str | None) -> None:
    """Give up a release that was charged and can't be finished; refunded only if no record was read."""
    from ...flows.unfinished import abandon_release

    refunded = abandon_release(release_id, reason=reason, state_paths=resolve_paths(ledger_url=ledger_url))
    outcome = "what it reserved is free again, since nothing was read" if refunded else "its cost stays spent"
    click.echo(f"Release '{release_id}' is abandoned; {outcome}.")


@click.command()
@click.argument("certificate", type=RELEASE_CERTIFICATE, metavar="RELEASE", required=False)
@click.option("--public-key", type=FILE, help="PEM file of the publisher's public key, had from the publisher.")
@click.option("--page", type=FILE, help="Write the HTML page that checks a release in a browser, and check none.")
@AS_JSON
def verify(certificate: Path | None, public_key: Path | None, page: Path | None, as_json: bool) -> int:
    """Check a release's certificate and its files, without ledger or private store.

    RELEASE is its folder, or the certificate in it. With --page nothing is checked: the page is for whoever has the
    release, a browser, and no crowdblend; it is one file, and sends nothing anywhere.
    """
    if page is not None:
        if certificate is not None or public_key is not None or as_json:
            raise click.UsageError("--page checks no release: give it alone.")
        _write_page(page)
        return 0
    if certificate is None:
        raise click.UsageError("Missing argument 'RELEASE'.")
    from ...accounting.keys.signing_upkeep import read_public_keys
    from ...mechanisms.kernel.amounts import counted
    from ...mechanisms.kernel.errors import one_line
    from ..release_check import verify_release

    trusted = None if public_key is None else read_public_keys(public_key)
    check = verify_release(certificate, trusted=trusted)
    if as_json:
        result: ReleaseVerified = {
            "ok": not check.findings,
            "findings": list(check.findings),
            "signed_by": check.signed_by,
            "unchecked": list(check.unchecked),
            "kernel": check.kernel,
            "kernel_is_installed": check.kernel_is_installed,
        }
        click.echo(json.dumps(result, ensure_ascii=False))
        return 1 if check.findings else 0
    for finding in check.findings:
        click.echo(one_line(finding))
    if check.findings:
        click.echo(f"{counted(len(check.findings), 'finding')}: don't rely on this release.")
        return 1
    click.echo("The files are those of the certificate.")
    if check.signed_by is not None:
        whose = "the key it names" if trusted is None else "the publisher's key"
        click.echo(f"Its signature holds for {whose}: {check.signed_by}.")
    if check.kernel is not None:
        same = "the one that is installed here" if check.kernel_is_installed else "another one than is installed here"
        click.echo(f"It was made by the kernel {check.kernel[:16]}, {same}.")
    for what in check.unchecked:
        click.echo(f"Not shown: {one_line(what)}")
    return 0


def _write_page(path: Path) -> None:
    from ...accounting.certificate.write_certificate import VERIFY_PAGE
    from ..release_paths import write_new

    write_new(path, VERIFY_PAGE.read_text(encoding="utf-8"))
    click.echo(f"The page is in {path}: open it in a browser, and give it a release's folder and the publisher's key.")


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
    from ..release_facts import levels_text, listed_release
    from ..terminal.tables import FactTable, print_more, print_uncut

    places = resolve_paths(ledger_url=ledger_url)
    with reader_of(places) as reader:
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
        levels = "" if row["levels"] is None else levels_text(row["levels"], drawn=bool(row["levels_drawn"]))
        cells.append((row["release_id"], row["dataset"], row["day"], row["stage"], levels, row["output"] or ""))
    headers = ("release", "data set", "day", "stage", "levels", "output")
    print_uncut(FactTable(title="Releases", headers=headers, rows=tuple(cells)))
    print_more(len(rows), len(states), "releases")


@release.command("show")
@click.argument("release_id")
@click.option("--groups", type=click.IntRange(min=0), default=10, show_default=True, help="Published groups to show.")
@LEDGER
@AS_JSON
def show(release_id: str, groups: int, ledger_url: str | None, as_json: bool) -> None:
    """Show one release: what it cost, where it lies, its levels, and its largest published groups.

    The groups are those of the published table, whose digest must be the one in the ledger; no record is looked at.
    """
    from ...flows.unfinished import commands_for, cost_so_far
    from ..release_facts import facts_of_release, largest_groups, listed_release
    from ..terminal.tables import FactTable, print_uncut

    places = resolve_paths(ledger_url=ledger_url)
    with reader_of(places) as reader:
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
        full: ShownRelease = {**row, "cost": cost, "largest_groups": shown}
        click.echo(json.dumps(full, ensure_ascii=False))
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
