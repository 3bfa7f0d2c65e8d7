"""`crowdblend registry`: a release's entry for a public registry of deployments."""

from __future__ import annotations

from pathlib import Path

import click

from ..mechanisms.refusal import InputRefused, ReleaseFailed
from .options import FILE, RELEASE_CERTIFICATE, default_publisher

__all__ = ["registry"]


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
def registry(certificate: Path, output: Path | None, public_key: Path | None, **words: str | None) -> None:
    """Write a release's entry for the OpenDP deployments registry; fails where its certificate does not verify.

    RELEASE is its folder, or the certificate in it. What the certificate can't know is left as a text that begins with
    FILL IN.
    """
    from ..accounting.ledger.certificate import read_certificate, verify_certificate
    from ..accounting.ledger.registry_entry import FILL_IN, StewardsWords, registry_text
    from ..accounting.ledger.signing import read_public_keys

    trusted = None if public_key is None else read_public_keys(public_key)
    check = verify_certificate(certificate, trusted=trusted)
    if check.findings:
        raise ReleaseFailed(
            f"the certificate does not verify: {check.findings[0]}.",
            where=str(certificate),
            not_done="No entry was written.",
            remedy="Run `crowdblend verify` on it.",
        )
    text = registry_text(
        read_certificate(certificate), StewardsWords(**words | {"curator": words["curator"] or default_publisher()})
    )
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise InputRefused(f"the entry can't be written ({error.strerror}).", where=str(output)) from None
    left = text.count(FILL_IN)
    click.echo(f"The entry is in {output}; {left} of its texts begin with {FILL_IN} and are yours to write.")
