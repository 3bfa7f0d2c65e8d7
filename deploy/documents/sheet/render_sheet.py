"""The researcher's sheet of a release, written as HTML and as Markdown, with programs that load it."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from markupsafe import Markup

from ....accounting.charts import column_map, triangle_chart
from ....accounting.theory.count_bounds import CountBounds, Language, NormalBounds
from ..document_registry import Document, VerifiedRelease, verified_release, write_document
from ..rendering import macro_text, page, plain_text
from .citing import bibtex, citation
from .facts import LABELS, SheetFacts, declared_sizes, sheet_facts


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


KIT = "crowdblend"
TOOLS = (("pandas", "python"), ("Polars", "python"), ("DuckDB", "sql"), ("R", "r"))


def snippets(facts: SheetFacts) -> tuple[Snippet, ...]:
    """Return the same count in each tool: people by a column, with bounds that hold; what has none is only loaded."""
    if facts.shape in ("answers", "synthetic") or not facts.columns:
        return tuple(_snippet(tool, "load", facts, [column.name for column in facts.columns]) for tool, _ in TOOLS)
    asked = _Count(facts=facts, by=(facts.counted_by,), bounds=facts.bounds, of_margins=facts.margins is not None)
    return (*_by_kit(facts, asked), *(_snippet(tool, "count", facts, asked) for tool, _ in TOOLS))


def cross_snippets(facts: SheetFacts) -> tuple[Snippet, ...]:
    """Return the count of people by two columns, from the rows; none where there aren't two that tell something."""
    table = facts.of_cross
    if not table.cross:
        return ()
    asked = _Count(facts=table, by=table.cross, bounds=table.cross_bounds, of_margins=False)
    return (*_by_kit(facts, asked), *(_snippet(tool, "count", table, asked) for tool in ("pandas", "R")))


def pair_snippets(facts: SheetFacts) -> tuple[Snippet, ...]:
    """Return the count of people by the counted pair that tells most, in each tool; none where no pair was chosen."""
    if (pair := facts.shown_pair) is None:
        return ()
    bounds = NormalBounds(deviation=pair.deviation, once=0.0, absent=0.0, combinations=1)
    asked = _Count(facts=facts, by=pair.columns, bounds=bounds, of_margins=True, pair=pair.number)
    return (*_by_kit(facts, asked), *(_snippet(tool, "count", facts, asked) for tool, _ in TOOLS))


def population_snippets(facts: SheetFacts) -> tuple[Snippet, ...]:
    """Return how people of the population are counted by survey weights; none where there are no such weights."""
    if facts.totals is None:
        return ()
    weights, rows = facts.certificate["published"]["survey_weights"]["column"], facts.each_table[0]
    others = [column for column in rows.columns if column.name != weights]
    by = next((column for column in others if len({*column.levels}) == 1), others[0]).name
    asked = _Count(facts=rows, by=(by,), bounds=None, of_margins=False)
    return tuple(_snippet(tool, "population", rows, asked) for tool in ("pandas", "R"))


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


def _by_kit(facts: SheetFacts, asked: _Count) -> tuple[Snippet, ...]:
    """Return the count by the researcher's kit, which needs every column's hierarchy; none where it can't be had."""
    sizes = declared_sizes(facts.certificate)
    if not sizes.keys() >= set(asked.by) or None in sizes.values():
        return ()
    return (_snippet(KIT, "count", facts, asked),)


def _snippet(tool: str, does: str, facts: SheetFacts, asked: object) -> Snippet:
    code = macro_text("sheet_code.txt", f"{does}_{tool.lower()}", facts, asked)
    return Snippet(tool=tool, language=dict(TOOLS).get(tool, "python"), code=code)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Count:
    """People by some columns: `counted` and `groups` of their labels, and what bounds make of them.

    Args:
        facts: of the release.
        by: the columns, or `stage`.
        bounds: of what is counted; None where there are none.
        of_margins: whether counts are read off the margins, by a single column or a counted pair.
        pair: the pair's number; 0 for a single column.
    """

    facts: SheetFacts
    by: tuple[str, ...]
    bounds: CountBounds | None
    of_margins: bool
    pair: int = 0
    MARGIN_TEXTS: ClassVar = ("column", "label", "second_column", "second_label")

    @property
    def margin_labels(self) -> list[str]:
        """The columns of labels of what is read off the margins."""
        return ["label", "second_label"] if self.pair else ["label"]

    @property
    def labels(self) -> list[str]:
        return [column.name for column in self.facts.columns]

    @property
    def merged(self) -> list[str]:
        """Columns whose labels are not those of the last stage in every stage."""
        return [column.name for column in self.facts.columns if column.name in self.by and len({*column.levels}) > 1]

    @property
    def there(self) -> tuple[str, str] | None:
        """The column, and the comparison, of the rows that have combinations of the last stage, or any records."""
        if self.facts.stages > 1:
            return "stage", f"== {self.facts.stages}"
        if self.facts.shape == "histogram" and self.facts.noise is None:
            return "count", "> 0"
        return None

    @property
    def adding(self) -> list[str]:
        """The columns whose product is added up; none where rows are counted."""
        # Bounds by the number of all people are of records, which no weight changes.
        weight = ["weight"] if self.facts.weighted and self.facts.total is None else []
        return weight + (["count"] if self.facts.shape != "microdata" else [])

    def product(self, column: str) -> str:
        """Return what is added up, by how a tool writes a column."""
        return " * ".join(column.format(name) for name in self.adding)

    def results(self, language: Language) -> dict[str, str]:
        """Return the name of each result and its expression."""
        return {"people": "counted"} if self.bounds is None else self.bounds.texts(language)

    def head(self, language: Language) -> str:
        """Return the lines of what the expressions name: modules, and the error."""
        text = " ".join(self.results(language).values())
        lines = ["import numpy as np"] if "np." in text else []
        if "error" in text:
            laws = "nbinom, norm" if "norm.ppf" in text else "nbinom"
            lines += [f"from scipy.stats import {laws}", ""] if language == "python" else []
            sizes = [declared_sizes(self.facts.certificate).get(name) for name in self.by]
            cells = None if None in sizes else math.prod(size for size in sizes if size is not None)
            at_once = " of each" if cells is None else f" of each; for all {cells} to hold at once: 0.05 / {cells}"
            lines += [f"error {'=' if language == 'python' else '<-'} 0.05  #{at_once}"]
        return "".join(f"{line}\n" for line in lines)


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
        "snippets": snippets(facts),
        "cross": cross_snippets(facts),
        "of_pair": pair_snippets(facts),
        "population": population_snippets(facts),
        "pair_picture": pair_picture(facts),
        "citation": citation(facts, publisher=publisher),
        "bibtex": bibtex(facts, publisher=publisher),
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
    writer.writerow([*(["block"] if facts.tables else []), "column", "stage", "label", "coarser", "lower", "upper"])
    for table in facts.each_table:
        own = [table.block] if facts.tables else []
        writer.writerows(
            [*own, one.column, one.stage, one.label, one.coarser or "", one.lower, one.upper] for one in table.labels
        )
    return text.getvalue()
