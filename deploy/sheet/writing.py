"""The researcher's sheet of a release, written as HTML and as Markdown."""

from __future__ import annotations

import re
from pathlib import Path

from ...accounting.ledger.signing import read_public_keys
from ..documents.rendering import page, plain_text
from ..options import RELEASE_FOLDER
from ..placing import make_folder_elsewhere, require_elsewhere, write_new
from .citation import bibtex, citation
from .facts import sheet_facts
from .snippets import snippets

__all__ = ["write_sheet"]


def write_sheet(
    release: Path | str,
    *,
    output: Path | str = ".",
    public_key: Path | None = None,
    publisher: str | None = None,
) -> tuple[Path, Path]:
    """Write a sheet for researchers, from what a release publishes alone.

    It may be handed out with the release; but it isn't part of it, so it is written elsewhere.

    Args:
        release: the release's folder, or its certificate.
        output: folder for the two files; it is made where there is none.
        public_key: PEM file of the publisher's public key, to check the certificate with; None checks it by the key
            that it names.
        publisher: who publishes the release, for the citation.

    Returns:
        The two new files: HTML and Markdown.

    Raises:
        InputRefused: the release or the key can't be read, or nothing may be written there.
        ReleaseFailed: the release doesn't verify.
    """
    trusted = None if public_key is None else read_public_keys(public_key)
    facts = sheet_facts(RELEASE_FOLDER.convert(release, None, None), trusted=trusted)
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", facts.certificate["release_id"])
    html, markdown = Path(output) / f"{stem}-sheet.html", Path(output) / f"{stem}-sheet.md"
    make_folder_elsewhere(Path(output))
    for place in (html, markdown):
        require_elsewhere(place)
    context = {
        "facts": facts,
        "certificate": facts.certificate,
        "snippets": snippets(facts),
        "citation": citation(facts, publisher=publisher),
        "bibtex": bibtex(facts, publisher=publisher),
        "publisher": publisher,
    }
    write_new(html, page("sheet.html", **context))
    write_new(markdown, plain_text("sheet.md", **context))
    return html, markdown
