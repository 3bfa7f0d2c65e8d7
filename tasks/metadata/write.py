"""The folder of metadata of a release: one file for each format that its tables have a description in."""

from __future__ import annotations

from pathlib import Path

from .croissant import croissant_text
from .csvw import csvw_text
from .ddi_codebook import ddi_text
from .description import DescribedRelease
from .dictionary import dictionary_text

__all__ = ["FOLDER", "write_metadata"]

FOLDER = "metadata"


def write_metadata(place: Path, described: DescribedRelease) -> None:
    """Write the folder `metadata` into a release's folder.

    CSVW describes CSV alone: of tables in Parquet there is no such file, and the dictionary says so.

    PRIVACY: a function of what is described; the same bytes however often it is written.

    Args:
        place: the release's folder.
        described: the release.

    Raises:
        OSError: the folder can't be written.
    """
    texts = {
        "data-dictionary.md": dictionary_text(described),
        "csvw.json": csvw_text(described),
        "croissant.json": croissant_text(described),
        "ddi-codebook.xml": ddi_text(described),
    }
    folder = place / FOLDER
    folder.mkdir()
    for name, text in texts.items():
        if text is not None:
            (folder / name).write_bytes(text.encode("utf-8"))
