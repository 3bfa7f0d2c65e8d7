"""`crowdblend preview`: what a release would lose and why, without looking at its records and without spending."""

from __future__ import annotations

from pathlib import Path

import click

from .options import AS_JSON, FILE, RELEASE_FOLDER

__all__ = ["preview"]


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
    from .preview.telling import tell_preview

    tell_preview(
        spec,
        public=public,
        released=released,
        separator=separator,
        population=population,
        wanted=wanted,
        html=html,
        as_json=as_json,
    )
