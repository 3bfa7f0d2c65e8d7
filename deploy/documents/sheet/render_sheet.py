"""The researcher's sheet of a release, written as HTML and as Markdown, with programs that load it."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..document_registry import Document, VerifiedRelease, file_stem, verified_release, write_document
from ..rendering import page, plain_text
from .bounds import CountBounds, Language
from .facts import SheetFacts, bibtex, citation, declared_sizes, sheet_facts

__all__ = ["Snippet", "cross_snippets", "labels_file", "snippets", "write_sheet"]

LABELS = "-labels.csv"
MARGIN_TEXTS = ("column", "label", "second_column", "second_label")


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


def snippets(facts: SheetFacts) -> tuple[Snippet, ...]:
    """The same count in each tool: people by a column, with bounds that hold; the rest is only loaded."""
    if facts.shape in ("answers", "synthetic") or not facts.columns:
        return tuple(_loading(facts))
    asked = _Count(facts=facts, by=(facts.counted_by,), bounds=facts.bounds, of_margins=facts.margins is not None)
    return (
        Snippet(tool="pandas", language="python", code=asked.pandas()),
        Snippet(tool="Polars", language="python", code=asked.polars()),
        Snippet(tool="DuckDB", language="sql", code=asked.duckdb()),
        Snippet(tool="R", language="r", code=asked.r()),
    )


def cross_snippets(facts: SheetFacts) -> tuple[Snippet, ...]:
    """People by two columns, from the rows; none where there aren't two that tell something."""
    if not facts.cross:
        return ()
    asked = _Count(facts=facts, by=facts.cross, bounds=facts.cross_bounds, of_margins=False)
    return (
        Snippet(tool="pandas", language="python", code=asked.pandas()),
        Snippet(tool="R", language="r", code=asked.r()),
    )


def labels_file(facts: SheetFacts) -> str:
    """Return the name of the lookup file of labels."""
    return f"{file_stem(facts.certificate)}{LABELS}"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Count:
    """People by some columns: `counted` and `groups` of their labels, and what bounds make of them.

    Args:
        facts: of the release.
        by: the columns, or `stage`.
        bounds: of what is counted; None where there are none.
        of_margins: whether counts are read off the margins, by a single column.
    """

    facts: SheetFacts
    by: tuple[str, ...]
    bounds: CountBounds | None
    of_margins: bool

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
        weight = ["weight"] if self.facts.deletion is not None else []
        return weight + (["count"] if self.facts.shape != "microdata" else [])

    def results(self, language: Language) -> dict[str, str]:
        """The name of each result and its expression."""
        return {"people": "counted"} if self.bounds is None else self.bounds.texts(language)

    def head(self, language: Language) -> list[str]:
        """What the expressions name: modules, and the error."""
        text = " ".join(self.results(language).values())
        lines = ["import numpy as np"] if "np." in text else []
        if "error" in text:
            lines += ["from scipy.stats import nbinom", ""] if language == "python" else []
            sizes = [declared_sizes(self.facts.certificate).get(name) for name in self.by]
            cells = None if None in sizes else math.prod(size for size in sizes if size is not None)
            at_once = " of each" if cells is None else f" of each; for all {cells} to hold at once: 0.05 / {cells}"
            lines += [f"error {'=' if language == 'python' else '<-'} 0.05  #{at_once}"]
        return lines

    def pandas(self) -> str:
        facts = self.facts
        lines = ["import pandas as pd", *self.head("python"), ""]
        if self.of_margins and facts.margins is not None:
            lines += [
                _pandas_load(facts.margins, MARGIN_TEXTS),
                f'own = table[(table["column"] == {_literal(facts.counted_by)}) & (table["second_column"] == "")]',
                'counted, groups = own.set_index("label")["count"], 1',
            ]
        else:
            lines.append(_pandas_load(facts.file, self.labels))
            if self.merged:
                lines += [
                    f'labels = pd.read_csv("{labels_file(facts)}", dtype=str, keep_default_na=False)',
                    f"for name in {_list(self.merged)}:",
                    '    own = labels[labels["column"] == name]',
                    '    coarser = dict(zip(zip(own["stage"].astype(int), own["label"]), own["coarser"]))',
                    '    table[name] = [coarser[pair] for pair in zip(table["stage"], table[name])]',
                ]
            weight = " * ".join(f'table["{one}"]' for one in self.adding)
            there = "table" if self.there is None else f'table[table["{self.there[0]}"] {self.there[1]}]'
            own = f"[{', '.join(f'table[{_literal(name)}]' for name in self.by)}]"
            by = _literal(self.by[0]) if len(self.by) == 1 else _list(self.by)
            counted = f"({weight}).groupby({own[1:-1] if len(self.by) == 1 else own}, observed=True).sum()"
            lines.append(f"counted = {counted}" if weight else f"counted = table.groupby({by}, observed=True).size()")
            if self.bounds is not None:
                lines += [
                    f"last = {there}.drop_duplicates({_list(self.labels)})",
                    f"groups = last.groupby({by}, observed=True).size().reindex(counted.index, fill_value=0)",
                ]
        lines += [f"{result} = {text}" for result, text in self.results("python").items()]
        frame = ", ".join(f'"{result}": {result}' for result in self.results("python"))
        return "\n".join([*lines, f"shown = pd.DataFrame({{{frame}}})", "print(shown)"]) + "\n"

    def polars(self) -> str:
        facts, by = self.facts, _list(["label"] if self.of_margins else self.by)
        lines = ["import polars as pl", *self.head("python"), ""]
        if self.of_margins and facts.margins is not None:
            lines += [
                _polars_load(facts.margins, MARGIN_TEXTS),
                f'own = table.filter(pl.col("column") == {_literal(facts.counted_by)}, '
                'pl.col("second_column").fill_null("") == "")',
                'counts = own.select("label", counted="count", groups=1)',
            ]
        else:
            lines.append(_polars_load(facts.file, self.labels))
            if self.merged:
                lines += [
                    f'labels = pl.read_csv("{labels_file(facts)}", infer_schema=False)',
                    f"for name in {_list(self.merged)}:",
                    '    own = labels.filter(pl.col("column") == name)',
                    '    own = own.select("stage", "coarser", pl.col("label").alias(name))',
                    '    table = table.with_columns(pl.col("stage").cast(pl.String), pl.col(name).cast(pl.String))',
                    '    table = table.join(own, on=["stage", name], how="left").drop(name).rename({"coarser": name})',
                    'table = table.with_columns(pl.col("stage").cast(pl.Int64))',
                ]
            weight = " * ".join(f'pl.col("{one}")' for one in self.adding)
            there = "table" if self.there is None else f'table.filter(pl.col("{self.there[0]}") {self.there[1]})'
            lines += [
                f"people = table.group_by({by}).agg(counted={f'({weight}).sum()' if weight else 'pl.len()'})",
                f"last = {there}.unique({_list(self.labels)})",
                f"groups = last.group_by({by}).agg(groups=pl.len())",
                f'counts = people.join(groups, on={by}, how="left").with_columns(pl.col("groups").fill_null(0))',
            ]
        results = ", ".join(f"{result}={text}" for result, text in self.results("python").items())
        lines += [
            'counted, groups = (counts[name].cast(pl.Float64).to_numpy() for name in ("counted", "groups"))',
            f"counts = counts.select({by[1:-1]}, {results}).sort({by})",
            "print(counts)",
        ]
        return "\n".join(lines) + "\n"

    def duckdb(self) -> str:
        facts, name = self.facts, _quoted(self.by[0])
        if self.of_margins and facts.margins is not None:
            source = _duckdb_source(facts.margins, MARGIN_TEXTS)
            inner = [
                'SELECT label, "count" AS counted, 1 AS groups',
                f"FROM {source}",
                f"""WHERE "column" = {_text(facts.counted_by)} AND coalesce(second_column, '') = ''""",
            ]
        else:
            label, origin = f"released.{name}", f"{_duckdb_source(facts.file, self.labels)} AS released"
            if self.merged:
                label = "labels.coarser"
                origin += (
                    f"\n  JOIN read_csv('{labels_file(facts)}', header = true, all_varchar = true) AS labels"
                    f'\n    ON labels."column" = {_text(self.by[0])} AND labels.label = released.{name}'
                    "\n    AND labels.stage = released.stage::VARCHAR"
                )
            weight = " * ".join(f'released."{one}"' for one in self.adding)
            comparison = "" if self.there is None else self.there[1].replace("==", "=")
            where = "" if self.there is None else f' FILTER (WHERE released."{self.there[0]}" {comparison})'
            cells = ", ".join(f"released.{_quoted(one)}" for one in self.labels)
            inner = [
                f"SELECT {label} AS label, {f'sum({weight})' if weight else 'count(*)'} AS counted,",
                f"       count(DISTINCT row({cells})){where} AS groups",
                f"FROM {origin}",
                "GROUP BY ALL",
            ]
        results = ", ".join(f"{text} AS {result}" for result, text in self.results("sql").items())
        return "\n".join([f"SELECT label, {results}", "FROM (", *(f"  {line}" for line in inner), ")"]) + (
            "\nORDER BY label;\n"
        )

    def r(self) -> str:
        facts, by = self.facts, f"c({_list(self.by)[1:-1]})"
        lines = self.head("r")
        if self.of_margins and facts.margins is not None:
            lines += [
                _r_load(facts.margins, MARGIN_TEXTS),
                f'shown <- table[table$column == {_literal(facts.counted_by)} & table$second_column == "", ]',
                "counted <- shown$count",
                "groups <- 1",
            ]
            by = '"label"'
        else:
            lines += [_r_load(facts.file, self.labels), "table <- as.data.frame(table)"]
            if self.merged:
                lines += [
                    f'labels <- read.csv("{labels_file(facts)}", colClasses = "character", na.strings = character())',
                    f"for (name in c({_list(self.merged)[1:-1]})) {{",
                    "  own <- labels[labels$column == name, ]",
                    "  pairs <- match(paste(table$stage, table[[name]]), paste(own$stage, own$label))",
                    "  table[[name]] <- own$coarser[pairs]",
                    "}",
                ]
            there = "TRUE" if self.there is None else f"table${self.there[0]} {self.there[1]}"
            names = [*self.labels, *(["stage"] if "stage" in there else [])]
            lines += [
                f"counted <- {' * '.join(f'table${one}' for one in self.adding) or 'rep(1, nrow(table))'}",
                f"groups <- {there} & !duplicated(table[c({_list(names)[1:-1]})])",
                f"shown <- aggregate(data.frame(counted, groups), table[{by}], sum)",
                "counted <- shown$counted",
                "groups <- shown$groups",
            ]
        lines += [f"{result} <- {text}" for result, text in self.results("r").items()]
        lines.append(f"shown <- cbind(shown[{by}], {', '.join(self.results('r'))})")
        return "\n".join([*lines, "print(shown, row.names = FALSE)"]) + "\n"


def _loading(facts: SheetFacts) -> list[Snippet]:
    labels = [column.name for column in facts.columns]
    pandas, polars = _pandas_load(facts.file, labels), _polars_load(facts.file, labels)
    return [
        Snippet(tool="pandas", language="python", code=f"import pandas as pd\n\n{pandas}\nprint(table)\n"),
        Snippet(tool="Polars", language="python", code=f"import polars as pl\n\n{polars}\nprint(table)\n"),
        Snippet(tool="DuckDB", language="sql", code=f"FROM {_duckdb_source(facts.file, labels)};\n"),
        Snippet(tool="R", language="r", code=f"{_r_load(facts.file, labels)}\nprint(table)\n"),
    ]


def _pandas_load(file: str, texts: Sequence[str]) -> str:
    if file.endswith(".parquet"):
        return f'table = pd.read_parquet("{file}")'
    return f'table = pd.read_csv("{file}", dtype={_types(texts, "str")}, keep_default_na=False)'


def _polars_load(file: str, texts: Sequence[str]) -> str:
    if file.endswith(".parquet"):
        return f'table = pl.read_parquet("{file}")'
    return f'table = pl.read_csv("{file}", schema_overrides={_types(texts, "pl.String")})'


def _duckdb_source(file: str, texts: Sequence[str]) -> str:
    if file.endswith(".parquet"):
        return f"read_parquet('{file}')"
    types = ", ".join(f"{_text(name)}: 'VARCHAR'" for name in texts)
    return f"read_csv('{file}', header = true, types = {{{types}}})" if types else f"read_csv('{file}', header = true)"


def _r_load(file: str, texts: Sequence[str]) -> str:
    if file.endswith(".parquet"):
        return f'table <- arrow::read_parquet("{file}")'
    types = ", ".join(f"{_literal(name)} = 'character'" for name in texts)
    return f'table <- read.csv("{file}", colClasses = c({types}), check.names = FALSE, na.strings = character())'


def _types(texts: Sequence[str], kind: str) -> str:
    return "{" + ", ".join(f"{_literal(name)}: {kind}" for name in texts) + "}"


def _list(names: Sequence[str]) -> str:
    return f"[{', '.join(map(_literal, names))}]"


def _literal(text: str) -> str:
    """A text as Python and R write it."""
    return json.dumps(text, ensure_ascii=False)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def sheet_texts(release: VerifiedRelease) -> dict[str, str]:
    """Return the sheet as HTML and as Markdown, and the lookup file of the table's labels as CSV.

    Raises:
        InputRefused: there is no sheet of this kind of release.
        ReleaseFailed: the table can't be read.
    """
    facts, publisher = sheet_facts(release), release.statements.get("publisher")
    context = {
        "facts": facts,
        "certificate": facts.certificate,
        "snippets": snippets(facts),
        "cross": cross_snippets(facts),
        "labels_file": labels_file(facts),
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
    """The labels as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["column", "stage", "label", "coarser", "lower", "upper"])
    writer.writerows(
        [one.column, one.stage, one.label, one.coarser or "", one.lower, one.upper] for one in facts.labels
    )
    return text.getvalue()
