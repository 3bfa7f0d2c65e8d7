"""The researcher's sheet of a release, as HTML and Markdown, with programs that load it and how it is cited."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from ....accounting.charts import column_map, triangle_chart
from ..document_registry import Document, VerifiedRelease, verified_release, write_document
from ..rendering import macro_text, page, plain_text
from .facts import LABELS, SheetFacts, sheet_facts

_SPECIAL = re.compile(r"([&%$#_{}])")


@dataclass(frozen=True, kw_only=True, slots=True)
class Snippet:
    """Code to copy.

    Args:
        tool: what it is for.
        language: of the code, as Markdown names it.
        code: the lines; the table is expected in the folder where they run.
    """

    tool: str
    language: str
    code: str


def kit_snippets(facts: SheetFacts) -> tuple[Snippet, ...]:
    """Return calls of the researcher's kit, in Python and R; none where it can't read the release."""
    if facts.kit is None:
        return ()
    return _snippet("Python", "python", "kit_python", facts.kit), _snippet("R", "r", "kit_r", facts.kit)


def row_snippets(table: SheetFacts) -> tuple[Snippet, ...]:
    """Return how other programs read a table of rows."""
    tools = (("pandas", "python"), ("DuckDB", "sql"), ("R", "r"))
    return tuple(_snippet(tool, language, f"rows_{tool.lower()}", table) for tool, language in tools)


def population_snippets(facts: SheetFacts) -> tuple[Snippet, ...]:
    """Return how people of the population are counted by survey weights; none where there are no such weights."""
    if facts.totals is None:
        return ()
    weights, rows = facts.certificate["published"]["survey_weights"]["column"], facts.each_table[0]
    others = [column for column in rows.columns if column.name != weights]
    by = next((column for column in others if len({*column.levels}) == 1), others[0]).name
    tools = (("pandas", "python"), ("R", "r"))
    return tuple(_snippet(tool, language, f"population_{tool.lower()}", rows, by) for tool, language in tools)


def pair_picture(facts: SheetFacts) -> Markup:
    """Return the pairs in a triangle of all columns, the darker the further from independence.

    Of few columns it has the figures of the counted pairs; of many, or of several tables of rows, it is a map of all
    pairs, with a dot on those that were counted. A pair that was counted twice is shown by the finer labels.
    """
    names = [column.name for column in facts.columns]
    if not facts.pairs:
        return Markup("")
    finest = {pair.columns: pair for pair in sorted(facts.pairs, key=lambda pair: pair.cells)}
    notes = {
        columns: f"pair {pair.number}, {pair.cells} counts with the standard error {pair.deviation:.4g}"
        for columns, pair in finest.items()
    }
    counted = {columns: pair.distance for columns, pair in finest.items()}
    if facts.mapped:
        return column_map(
            _in_blocks(names, facts.blocks),
            {**facts.distances, **counted},
            marked=notes,
            groups=facts.blocks,
            key="pairs",
            title="How far each pair of columns is from independent columns; a dot on those that were counted",
        )
    return triangle_chart(
        names,
        counted,
        key="pairs",
        title="The pairs that were counted, and how far each is from independent columns",
        notes=notes,
    )


def _in_blocks(names: Sequence[str], blocks: Mapping[str, Sequence[str]]) -> list[str]:
    """Return names so that those of a block are together: those in several blocks first, then block by block."""
    held = {name: [number for number, members in enumerate(blocks.values()) if name in members] for name in names}
    several = {name: len(held[name]) if len(held[name]) > 1 else 0 for name in names}
    return sorted(names, key=lambda name: (-several[name], held[name], names.index(name)))


def _snippet(tool: str, language: str, macro: str, *arguments: object) -> Snippet:
    return Snippet(tool=tool, language=language, code=macro_text("sheet_code.txt", macro, *arguments))


def sheet_texts(release: VerifiedRelease) -> dict[str, str]:
    """Return the sheet as HTML and as Markdown, and the lookup file of the table's labels as CSV.

    Raises:
        InputRefused: there is no sheet of this kind of release.
        ReleaseFailed: the table can't be read.
    """
    facts, publisher = sheet_facts(release), release.statements.get("publisher")
    context: dict[str, Any] = {
        "facts": facts,
        "certificate": facts.certificate,
        "by_kit": kit_snippets(facts),
        "of_rows": row_snippets(facts.each_table[0]),
        "population": population_snippets(facts),
        "pair_picture": pair_picture(facts),
        "citation": _citation(facts, publisher=publisher),
        "bibtex": _bibtex(facts, publisher=publisher),
        "publisher": publisher,
    }
    return {
        "-sheet.html": page("sheet.html", **context),
        "-sheet.md": plain_text("sheet.md", **context),
        LABELS: _labels_text(facts),
    }


SHEET = Document(about=VerifiedRelease, texts=sheet_texts)


def write_sheet(
    release: Path | str,
    *,
    output: Path | str = ".",
    public_key: Path | None = None,
    publisher: str | None = None,
) -> tuple[Path, Path, Path]:
    """Write a sheet for researchers, from what a release publishes alone, and a lookup file of its labels.

    They may be handed out with the release; but they aren't part of it, so they are written elsewhere.

    Args:
        release: the release's folder, or its certificate.
        output: folder for the files; it is made where there is none.
        public_key: PEM file of the publisher's public key, to check the certificate with; None checks it by the key
            that it names.
        publisher: who publishes the release, for the citation.

    Returns:
        The new files: HTML, Markdown, and the labels as CSV.

    Raises:
        InputRefused: the release or the key can't be read, or nothing may be written there.
        ReleaseFailed: the release doesn't verify.
    """
    said = {} if publisher is None else {"publisher": publisher}
    verified = verified_release(Path(release), public_key=public_key, statements=said)
    html, markdown, labels = write_document("sheet", verified, output=Path(output))
    return html, markdown, labels


def _labels_text(facts: SheetFacts) -> str:
    """Return the labels as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    several = bool(facts.tables or facts.members)
    writer.writerow([*(["block"] if several else []), "column", "stage", "label", "coarser", "lower", "upper"])
    for table in (*facts.each_table, *([] if facts.members is None else [facts.members])):
        own = [table.block] if several else []
        writer.writerows(
            [*own, one.column, one.stage, one.label, one.coarser or "", one.lower, one.upper] for one in table.labels
        )
    return text.getvalue()


def _citation(facts: SheetFacts, *, publisher: str | None) -> str:
    """Return one sentence that names the release so that it can be told from any other."""
    certificate = facts.certificate
    who = f"{publisher.rstrip('.')}. " if publisher else ""
    return (
        f"{who}{certificate['name']} [data set]. Release {certificate['release_id']}, {certificate['day']}, made with "
        f"crowdblend {certificate['code_version']}; (ε, δ) = ({certificate['guarantee']['epsilon']}, "
        f"{certificate['guarantee']['delta']}); SHA-256 of {facts.digests}."
    )


def _bibtex(facts: SheetFacts, *, publisher: str | None) -> str:
    """Return the citation for BibTeX."""
    certificate = facts.certificate
    year, month, day = certificate["day"].split("-")
    key = re.sub(r"[^A-Za-z0-9]+", "-", certificate["release_id"]).strip("-")
    note = (
        f"Release {certificate['release_id']}; crowdblend {certificate['code_version']}; "
        f"epsilon = {certificate['guarantee']['epsilon']}, delta = {certificate['guarantee']['delta']}; "
        f"SHA-256 of {facts.digests}"
    )
    fields = [("title", f"{{{_escaped(certificate['name'])}}}")]
    if publisher:
        fields.append(("author", f"{{{_escaped(publisher)}}}"))
    fields += [("year", year), ("month", month.lstrip("0")), ("day", day.lstrip("0")), ("note", _escaped(note))]
    lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields)
    return f"@misc{{{key},\n{lines}\n}}\n"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)
