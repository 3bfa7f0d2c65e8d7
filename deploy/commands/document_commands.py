"""`crowdblend preview`, `sheet`, `registry` and `report`: documents about a release."""

from __future__ import annotations

import dataclasses
import getpass
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import click

from ...flows.paths import resolve_paths
from ...mechanisms.wording import FILL_IN
from .options import AS_JSON, FILE, LEDGER, RELEASE_CERTIFICATE, RELEASE_FOLDER, CommandGroup, default_publisher


@click.command()
@click.argument("release", type=RELEASE_FOLDER)
@click.option(
    "--output",
    type=FILE,
    default=Path(),
    help="Folder for the three files, made where there is none; default: the working folder.",
)
@click.option("--public-key", type=FILE, help="PEM file of the publisher's public key, to check the certificate with.")
@click.option("--publisher", help="Who publishes the release, for the citation.")
@AS_JSON
def sheet(release: Path, output: Path, public_key: Path | None, publisher: str | None, as_json: bool) -> None:
    """Write a sheet for researchers about a release, as HTML and as Markdown, and its labels as CSV.

    RELEASE is its folder, or the certificate in it. The files have what the release publishes and nothing else, and may
    be handed out with it; but they aren't part of it, so they are written elsewhere.
    """
    from ..documents.sheet.render_sheet import write_sheet

    html, markdown, labels = write_sheet(
        release,
        output=output,
        public_key=public_key,
        publisher=publisher or default_publisher(),
    )
    if as_json:
        places = {"html": str(html), "markdown": str(markdown), "labels": str(labels)}
        click.echo(json.dumps(places, ensure_ascii=False))
        return
    click.echo(f"The sheet is in {html} and {markdown}, its lookup file of labels in {labels}.")


@click.command()
@click.argument("certificate", type=RELEASE_CERTIFICATE, metavar="RELEASE")
@click.option("--output", type=FILE, help="File for the entry (YAML); default: standard output.")
@click.option("--public-key", type=FILE, help="PEM file of the publisher's public key, to check the certificate with.")
@click.option("--curator", help="Who publishes the data product.")
@click.option("--curator-type", help="For example Government or Nonprofit.")
@click.option("--description", help="What the data product is.")
@click.option("--intended-use", help="What it is for.")
@click.option("--region", help="The region that the data describe, or whose laws apply.")
@click.option("--sector", help="For example Healthcare or Education.")
@click.option("--author", help="Who writes the entry.")
def registry(certificate: Path, output: Path | None, public_key: Path | None, **texts: str | None) -> None:
    """Write a release's entry for the OpenDP deployments registry; fails where its certificate does not verify.

    RELEASE is its folder, or the certificate in it. What the certificate can't know is left as a text that begins with
    FILL IN.
    """
    from ..documents.document_registry import load_document, verified_release
    from ..release_paths import write_new

    texts["curator"] = texts["curator"] or default_publisher()
    statements = {name: text for name, text in texts.items() if text}
    verified = verified_release(certificate, public_key=public_key, statements=statements)
    [text] = load_document("registry").texts(verified).values()
    if output is None:
        click.echo(text, nl=False)
        return
    write_new(output, text)
    left = text.count(FILL_IN)
    click.echo(f"The entry is in {output}; {left} of its texts begin with {FILL_IN} and are yours to write.")


@click.group(cls=CommandGroup)
def report() -> None:
    """Reports about releases."""


@report.command("write")
@click.argument("name")
@click.argument("release", type=RELEASE_FOLDER)
@click.option("--output", type=FILE, default=Path(), help="Folder for the files; default: the working folder.")
@click.option("--public-key", type=FILE, help="PEM file of the publisher's public key, to check the certificate with.")
@AS_JSON
def write(name: str, release: Path, output: Path, public_key: Path | None, as_json: bool) -> None:
    """Write the document NAME about a release, also one that another distribution adds.

    RELEASE is its folder, or the certificate in it. Fails where its certificate does not verify.
    """
    from ..documents.document_registry import verified_release, write_document

    paths = write_document(name, verified_release(release, public_key=public_key), output=output)
    if as_json:
        click.echo(json.dumps({"files": [str(path) for path in paths]}, ensure_ascii=False))
        return
    click.echo(f"The document is in {', '.join(map(str, paths))}.")


@report.command("private")
@click.argument("spec", type=FILE)
@click.argument("release", type=RELEASE_FOLDER)
@click.option("--output", type=FILE, help="File (.html) of the report; default: reports/ in the private store.")
@click.option("--target", help="Column that classifiers tell from the others; default: one with few labels.")
@click.option("--attacks", is_flag=True, help="Also try attacks on the release: one known person, each column guessed.")
@click.option("--by", help="Who looks; default: the account that runs this.")
@LEDGER
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output: private figures too.")
def private(
    spec: Path,
    release: Path,
    output: Path | None,
    target: str | None,
    attacks: bool,
    by: str | None,
    ledger_url: str | None,
    as_json: bool,
) -> None:
    """Measure a published RELEASE of SPEC.toml against the private records. Not for publication.

    RELEASE is its folder, or the certificate in it.

    This is a private look: it is recorded in the ledger before a record is read, and certificates of all later releases
    of the data set, and of every other one that the same source was released as from this private store, say that
    parameters may have been chosen after it.
    """
    from ..documents.private_report import run_private_report
    from ..terminal.stages import Stages

    stages = Stages()
    with stages.shown("count"):
        made = run_private_report(
            spec,
            release=release,
            output=output,
            target=target,
            state_paths=resolve_paths(ledger_url=ledger_url),
            by=by or getpass.getuser(),
            today=datetime.now(UTC).date(),
            attacks=attacks,
            on_progress=stages.on_progress,
        )
    if as_json:
        reported = {"release_id": made.release_id, "report": str(made.path), "look": made.look}
        reported["measures"] = dataclasses.asdict(made.measures)
        reported["attacks"] = None if made.attacks is None else dataclasses.asdict(made.attacks)
        click.echo(json.dumps(reported, ensure_ascii=False, default=_plain))
        return
    others = ", ".join(f"'{name}'" for name in made.also)
    also = f", and recorded for {others} too, which had the same source" if made.also else ""
    click.echo(
        f"The private report of release {made.release_id}: {made.path}\n"
        "It is not for publication: it has exact figures of the private records.\n"
        f"The look is entry {made.look} of the ledger{also}. Certificates of later releases will say that parameters "
        "may have been chosen after it, which their guarantee doesn't cover."
    )


def _plain(value: object) -> object:
    """Return a decimal as a float, since JSON has no form for it."""
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


@click.command()
@click.argument("spec", type=FILE)
@click.option(
    "--public", help="Public or synthetic records with the specification's columns: file, folder, glob or URL."
)
@click.option(
    "--release",
    "released",
    type=RELEASE_FOLDER,
    help="A past release (its folder or certificate), or of a charged noisy histogram.",
)
@click.option("--separator", help="Of public CSV records; default: the specification's.")
@click.option("--population", type=click.IntRange(min=1), help="How many people the private records are of, if public.")
@click.option("--level", "wanted", multiple=True, help="Another level for a column, as age=2; may be given again.")
@click.option("--html", type=FILE, help="Also write a page with pictures into this new file.")
@AS_JSON
def preview(
    spec: Path,
    public: str | None,
    released: Path | None,
    separator: str | None,
    population: int | None,
    wanted: tuple[str, ...],
    html: Path | None,
    as_json: bool,
) -> None:
    """Foretell what a release of SPEC.toml would suppress, on records that may be looked at.

    Never on the private records: they are refused, and nothing is charged or read of them.
    """
    from ..documents.preview.render_preview import preview as predicted
    from ..documents.preview.render_preview import print_preview, require_place

    if html is not None:
        require_place(html, spec=spec)
    levels = dict(_level(text) for text in wanted)
    made = predicted(spec, public=public, release=released, separator=separator, population=population, levels=levels)
    if html is not None:
        made.write_page(html)  # before anything is printed: who reads that may go, as `head` does
        click.echo(f"The page is in {html}.", err=True)
    if as_json:
        click.echo(json.dumps(made.facts, ensure_ascii=False))
    else:
        print_preview(made)


def _level(text: str) -> tuple[str, int]:
    """Return a level that was asked for as `column=level`."""
    from ..documents.preview.render_preview import not_a_level

    name, mark, number = text.rpartition("=")
    if not mark or not (number.isascii() and number.isdigit()):
        raise not_a_level()
    return name, int(number)
