"""The folder of metadata of a release: one file for each standard, and the data dictionary, which people read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ...mechanisms.hierarchies.codebook import ColumnCodebook
from .description import DescribedRelease, DescribedTable
from .standards import croissant_text, csvw_text, ddi_text

__all__ = ["FOLDER", "dictionary_text", "write_metadata"]

FOLDER = "metadata"
_SPECIAL = re.compile(r"([\\`*_<>\[\]|&#~$])")


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


def dictionary_text(described: DescribedRelease) -> str:
    """The data dictionary: each column with its type and meaning, the codebook, and the guarantee."""
    return "\n".join(_lines(described)) + "\n"


def _lines(described: DescribedRelease) -> Iterator[str]:
    texts = described.texts
    yield f"# {_plain(described.title)}"
    yield ""
    if texts.description:
        yield from (_plain(texts.description), "")
    facts = {
        "release": described.release_id,
        "of the data set": described.dataset,
        "day": described.day,
        "publisher": texts.publisher,
        "license": texts.license,
        "published at": texts.url,
        "mechanism": described.mechanism,
        "(ε, δ)": f"({described.epsilon}, {described.delta})",
        "made with": described.software,
        "cite as": described.citation,
    }
    yield from ("| | |", "|---|---|")
    yield from (f"| {name} | {_plain(value)} |" for name, value in facts.items() if value is not None)
    for table in described.tables:
        yield from _table(table)
    if described.book:
        yield from _codebook(described.book)
    yield from ("", "## Guarantee", "", _plain(described.guarantee), "", _plain(described.limits))
    yield from ("", "## Other files", "")
    yield "- `certificate.json`: what was done, its price, and the digest of every file here, signed."
    yield "- `metadata/croissant.json`: these files and columns for programs that read Croissant (machine learning)."
    yield "- `metadata/ddi-codebook.xml`: the same for data archives (DDI-Codebook 2.5)."
    if described.tables[0].files[0].name.endswith(".csv"):
        yield "- `metadata/csvw.json`: these tables for programs that read CSVW."
    else:
        yield "- There is no description in CSVW, which is for CSV alone."


def _table(table: DescribedTable) -> Iterator[str]:
    yield from ("", f"## {_plain(table.files[0].name)}", "", f"Rows: {table.rows:,}.", "")
    yield from ("| file | bytes | SHA-256 |", "|---|---|---|")
    yield from (f"| {_plain(file.name)} | {file.n_bytes:,} | {file.sha256} |" for file in table.files)
    yield from ("", "| column | type | meaning |", "|---|---|---|")
    for column in table.columns:
        yield f"| {_plain(column.name)} | {column.datatype} | {_plain(column.meaning)} |"


def _codebook(book: tuple[ColumnCodebook, ...]) -> Iterator[str]:
    """Which declared values each label stands for."""
    yield from ("", "## Codebook", "")
    yield "The labels as they were declared before the records were read, with values that perhaps nobody has."
    for one in book:
        of = "" if not one.stages else f", stage {', '.join(str(stage) for stage in one.stages)}"
        yield from ("", f"### {_plain(one.name)}, level {one.level}{of}", "", _plain(one.rule))
        if one.labels:
            yield from ("", "| label | declared values |", "|---|---|")
        for label in one.labels:
            rest = f" and {label.more:,} more" if label.more else ""
            yield f"| {_plain(label.label)} | {_plain(', '.join(label.values))}{rest} |"
        if one.more:
            yield from ("", f"And {one.more:,} more labels.")
        yield from ("", f"SHA-256 of the hierarchy: {one.digest}")


def _plain(text: str) -> str:
    """A text as Markdown shows it, in one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()) if not text.isprintable() else text)
