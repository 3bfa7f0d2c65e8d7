"""The researcher's sheet of a release, written as HTML and as Markdown, with programs that load it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ....accounting.ledger.private_store.signing import read_public_keys
from ...cli import RELEASE_FOLDER
from ...commands.output_guard import make_folder_elsewhere, require_elsewhere, write_new
from ..rendering import page, plain_text
from .bounds import Language
from .facts import SheetFacts, bibtex, citation, sheet_facts

__all__ = ["Snippet", "snippets", "write_sheet"]

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
    asked = _Count(facts)
    return (
        Snippet(tool="pandas", language="python", code=asked.pandas()),
        Snippet(tool="Polars", language="python", code=asked.polars()),
        Snippet(tool="DuckDB", language="sql", code=asked.duckdb()),
        Snippet(tool="R", language="r", code=asked.r()),
    )


@dataclass(frozen=True, slots=True)
class _Count:
    """People by a column: `counted` and `groups` of each label, and what `CountBounds` makes of them."""

    facts: SheetFacts

    @property
    def by(self) -> str:
        return "label" if self.facts.margins is not None else self.facts.counted_by

    @property
    def labels(self) -> list[str]:
        return [column.name for column in self.facts.columns]

    @property
    def merged(self) -> Mapping[tuple[int, str], str]:
        """Labels of earlier stages that become others."""
        one = self.facts.deletion
        return {} if self.facts.margins is not None or one is None or one.counted is None else one.counted.merged

    @property
    def there(self) -> tuple[str, str] | None:
        """The column, and the comparison, of the rows that have combinations of the last stage, or any records."""
        if self.facts.deletion is not None and len(self.facts.deletion.stages) > 1:
            return "stage", f"== {len(self.facts.deletion.stages)}"
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
        return {"people": "counted"} if self.facts.bounds is None else self.facts.bounds.texts(language)

    def head(self, language: Language) -> list[str]:
        """What the expressions name: modules, and the error."""
        text = " ".join(self.results(language).values())
        lines = ["import numpy as np"] if "np." in text else []
        if "error" in text:
            lines += ["from scipy.stats import nbinom"] if language == "python" else []
            labels = self.facts.declared_labels
            at_once = "" if labels is None else f" of each label; for all {labels} at once: 0.05 / {labels}"
            lines += ["", f"error {'=' if language == 'python' else '<-'} 0.05  #{at_once or ' of each label'}"]
        return lines

    def pandas(self) -> str:
        facts, name = self.facts, _literal(self.by)
        lines = ["import pandas as pd", *self.head("python"), ""]
        if facts.margins is not None:
            lines += [
                _pandas_load(facts.margins, MARGIN_TEXTS),
                f'own = table[(table["column"] == {_literal(facts.counted_by)}) & (table["second_column"] == "")]',
                'counted, groups = own.set_index("label")["count"], 1',
            ]
        else:
            lines.append(_pandas_load(facts.file, self.labels))
            if self.merged:
                pairs = ", ".join(f"({s}, {_literal(a)}): {_literal(b)}" for (s, a), b in self.merged.items())
                lines += [
                    f"coarse = {{{pairs}}}",
                    f'table[{name}] = [coarse.get(pair, pair[1]) for pair in zip(table["stage"], table[{name}])]',
                ]
            weight = " * ".join(f'table["{one}"]' for one in self.adding)
            there = "table" if self.there is None else f'table[table["{self.there[0]}"] {self.there[1]}]'
            counted = f"({weight}).groupby(table[{name}], observed=True).sum()"
            lines += [
                f"counted = {counted}" if weight else f"counted = table.groupby({name}, observed=True).size()",
                f"last = {there}.drop_duplicates([{', '.join(map(_literal, self.labels))}])",
                f"groups = last.groupby({name}, observed=True).size().reindex(counted.index, fill_value=0)",
            ]
        lines += [f"{result} = {text}" for result, text in self.results("python").items()]
        frame = ", ".join(f'"{result}": {result}' for result in self.results("python"))
        return "\n".join([*lines, f"print(pd.DataFrame({{{frame}}}))"]) + "\n"

    def polars(self) -> str:
        facts, name = self.facts, _literal(self.by)
        lines = ["import polars as pl", *self.head("python"), ""]
        if facts.margins is not None:
            lines += [
                _polars_load(facts.margins, MARGIN_TEXTS),
                f'own = table.filter(pl.col("column") == {_literal(facts.counted_by)}, '
                'pl.col("second_column").fill_null("") == "")',
                'counts = own.select("label", counted="count", groups=1)',
            ]
        else:
            lines.append(_polars_load(facts.file, self.labels))
            if self.merged:
                rows = ", ".join(f"({s}, {_literal(a)}, {_literal(b)})" for (s, a), b in self.merged.items())
                schema = f'{{"stage": pl.Int64, {name}: pl.String, "merged": pl.String}}'
                lines += [
                    f'coarse = pl.DataFrame([{rows}], schema={schema}, orient="row")',
                    f'table = table.with_columns(pl.col({name}).cast(pl.String)).join(coarse, on=["stage", {name}], '
                    'how="left")',
                    f'table = table.with_columns(pl.coalesce("merged", {name}).alias({name}))',
                ]
            weight = " * ".join(f'pl.col("{one}")' for one in self.adding)
            there = "table" if self.there is None else f'table.filter(pl.col("{self.there[0]}") {self.there[1]})'
            lines += [
                f"people = table.group_by({name}).agg(counted={f'({weight}).sum()' if weight else 'pl.len()'})",
                f"last = {there}.unique([{', '.join(map(_literal, self.labels))}])",
                f"groups = last.group_by({name}).agg(groups=pl.len())",
                f'counts = people.join(groups, on={name}, how="left").with_columns(pl.col("groups").fill_null(0))',
            ]
        results = ", ".join(f"{result}={text}" for result, text in self.results("python").items())
        lines += [
            'counted, groups = (counts[name].cast(pl.Float64).to_numpy() for name in ("counted", "groups"))',
            f"counts = counts.select({name}, {results}).sort({name})",
            "print(counts)",
        ]
        return "\n".join(lines) + "\n"

    def duckdb(self) -> str:
        facts, name = self.facts, _quoted(self.by)
        if facts.margins is not None:
            source = _duckdb_source(facts.margins, MARGIN_TEXTS)
            inner = [
                'SELECT label, "count" AS counted, 1 AS groups',
                f"FROM {source}",
                f"""WHERE "column" = {_text(facts.counted_by)} AND coalesce(second_column, '') = ''""",
            ]
        else:
            label, origin = name, _duckdb_source(facts.file, self.labels)
            if self.merged:
                rows = ", ".join(f"({s}, {_text(a)}, {_text(b)})" for (s, a), b in self.merged.items())
                label = f"coalesce(merged, {name})"
                origin += (
                    f"\n  LEFT JOIN (VALUES {rows}) AS coarse(of_stage, of_label, merged)\n    "
                    f'ON "stage" = of_stage AND {name} = of_label'
                )
            weight = " * ".join(f'"{one}"' for one in self.adding)
            comparison = "" if self.there is None else self.there[1].replace("==", "=")
            where = "" if self.there is None else f' FILTER (WHERE "{self.there[0]}" {comparison})'
            inner = [
                f"SELECT {label} AS label, {f'sum({weight})' if weight else 'count(*)'} AS counted,",
                f"       count(DISTINCT row({', '.join(map(_quoted, self.labels))})){where} AS groups",
                f"FROM {origin}",
                "GROUP BY ALL",
            ]
        results = ", ".join(f"{text} AS {result}" for result, text in self.results("sql").items())
        return "\n".join([f"SELECT label, {results}", "FROM (", *(f"  {line}" for line in inner), ")"]) + (
            "\nORDER BY label;\n"
        )

    def r(self) -> str:
        facts, name = self.facts, _literal(self.by)
        lines = [line for line in self.head("r") if line]
        if facts.margins is not None:
            lines += [
                _r_load(facts.margins, MARGIN_TEXTS),
                f'own <- table[table$column == {_literal(facts.counted_by)} & table$second_column == "", ]',
                "counted <- setNames(own$count, own$label)",
                "groups <- 1",
            ]
        else:
            lines += [
                _r_load(facts.file, self.labels),
                "table <- as.data.frame(table)",
                f"label <- as.character(table[[{name}]])",
            ]
            if self.merged:
                stages = ", ".join(str(stage) for stage, _ in self.merged)
                finer = ", ".join(_literal(label) for _, label in self.merged)
                merged = ", ".join(map(_literal, self.merged.values()))
                lines += [
                    f"place <- match(paste(table$stage, label), paste(c({stages}), c({finer})))",
                    f"label <- ifelse(is.na(place), label, c({merged})[place])",
                ]
            there = "TRUE" if self.there is None else f"table${self.there[0]} {self.there[1]}"
            names = [*self.labels, *(["stage"] if "stage" in there else [])]
            lines += [
                f"counted <- tapply({' * '.join(f'table${one}' for one in self.adding) or 'rep(1, nrow(table))'}, "
                "label, sum)",
                f"last <- {there} & !duplicated(table[c({', '.join(map(_literal, names))})])",
                "groups <- tapply(last, label, sum)",
            ]
        lines += [f"{result} <- {text}" for result, text in self.results("r").items()]
        return "\n".join([*lines, f"print(cbind({', '.join(self.results('r'))}))"]) + "\n"


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


def _literal(text: str) -> str:
    """A text as Python and R write it."""
    return json.dumps(text, ensure_ascii=False)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


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
