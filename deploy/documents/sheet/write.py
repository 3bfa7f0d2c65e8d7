"""The researcher's sheet of a release, written as HTML and as Markdown, with programs that load it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from ....accounting.ledger.private_store.signing import read_public_keys
from ...cli import RELEASE_FOLDER
from ...commands.output_guard import make_folder_elsewhere, require_elsewhere, write_new
from ..rendering import page, plain_text
from .deletion import DeletionFacts, Loading, deletion_code
from .facts import SheetFacts, bibtex, citation, sheet_facts

__all__ = ["Snippet", "snippets", "write_sheet"]


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
    """The same estimate in each tool: people by the first column, with standard errors; answers are only loaded."""
    if facts.shape == "answers" or not facts.columns:
        return tuple(_loading(facts))
    if facts.deletion is not None:
        return tuple(_of_deletion(facts, facts.deletion))
    column = facts.columns[0].name
    counted = facts.shape != "microdata"
    return (
        _pandas(facts, column, counted),
        _polars(facts, column, counted),
        _duckdb(facts, column, counted),
        _r(facts, column, counted),
    )


def _of_deletion(facts: SheetFacts, deletion: DeletionFacts) -> list[Snippet]:
    codes = deletion_code(
        deletion,
        labels=[column.name for column in facts.columns],
        counts=facts.shape == "counts",
        loading=Loading(_pandas_load(facts), _polars_load(facts), _duckdb_source(facts), _r_load(facts)),
        literal=_literal,
    )
    return [
        Snippet(tool=tool, language={"DuckDB": "sql", "R": "r"}.get(tool, "python"), code=code)
        for tool, code in codes.items()
    ]


def _pandas(facts: SheetFacts, column: str, counted: bool) -> Snippet:
    name = _literal(column)
    count = (
        f'table.groupby({name}, observed=True)["count"].sum()'
        if counted
        else f"table.groupby({name}, observed=True).size()"
    )
    code = f"""\
import pandas as pd

{_pandas_load(facts)}
counts = {count}
people = counts * {_number(facts.weight)}{_comment(facts, "#")}
{_error(facts, "error = ({counts} * {share}) ** 0.5 * {weight}", counts="counts.clip(lower=0)")}\
print(pd.DataFrame({{{_frame(facts, '"people": people', '"error": error')}}}))
"""
    return Snippet(tool="pandas", language="python", code=code)


def _polars(facts: SheetFacts, column: str, counted: bool) -> Snippet:
    count = 'pl.col("count").sum()' if counted else "pl.len()"
    weight = _number(facts.weight)
    error = ""
    if facts.rate:
        error = f', error=(pl.col("n").cast(pl.Float64).clip(0) * {_number(1 - facts.rate)}).sqrt() * {weight}'
    code = f"""\
import polars as pl

{_polars_load(facts)}
counts = table.group_by({_literal(column)}).agg(n={count}).sort({_literal(column)})
print(counts.with_columns(people=pl.col("n") * {weight}{error}))
"""
    return Snippet(tool="Polars", language="python", code=code)


def _duckdb(facts: SheetFacts, column: str, counted: bool) -> Snippet:
    name = '"' + column.replace('"', '""') + '"'
    count = 'sum("count")' if counted else "count(*)"
    error = ""
    if facts.rate:
        error = f",\n       sqrt(greatest({count}, 0) * {_number(1 - facts.rate)}) * {_number(facts.weight)} AS error"
    code = f"""\
SELECT {name}, {count} * {_number(facts.weight)} AS people{error}
FROM {_duckdb_source(facts)}
GROUP BY {name}
ORDER BY {name};
"""  # noqa: S608 - text for people; names are quoted
    return Snippet(tool="DuckDB", language="sql", code=code)


def _r(facts: SheetFacts, column: str, counted: bool) -> Snippet:
    name = _literal(column)
    counts = (
        f"tapply(table[['count']], as.character(table[[{name}]]), sum)"
        if counted
        else f"table(as.character(table[[{name}]]))"
    )
    error = (
        f"\nerror <- sqrt(pmax(counts, 0) * {_number(1 - facts.rate)}) * {_number(facts.weight)}" if facts.rate else ""
    )
    frame = "people, error" if facts.rate else "people"
    code = f"""\
{_r_load(facts)}
counts <- {counts}
people <- counts * {_number(facts.weight)}{error}
print(cbind({frame}))
"""
    return Snippet(tool="R", language="r", code=code)


def _loading(facts: SheetFacts) -> list[Snippet]:
    return [
        Snippet(tool="pandas", language="python", code=f"import pandas as pd\n\n{_pandas_load(facts)}\nprint(table)\n"),
        Snippet(tool="Polars", language="python", code=f"import polars as pl\n\n{_polars_load(facts)}\nprint(table)\n"),
        Snippet(tool="DuckDB", language="sql", code=f"FROM {_duckdb_source(facts)};\n"),
        Snippet(tool="R", language="r", code=f"{_r_load(facts)}\nprint(table)\n"),
    ]


def _pandas_load(facts: SheetFacts) -> str:
    if facts.file.endswith(".parquet"):
        return 'table = pd.read_parquet("data.parquet")'
    return f'table = pd.read_csv("data.csv", dtype={_types(facts, "str")}, keep_default_na=False)'


def _polars_load(facts: SheetFacts) -> str:
    if facts.file.endswith(".parquet"):
        return 'table = pl.read_parquet("data.parquet")'
    return f'table = pl.read_csv("data.csv", schema_overrides={_types(facts, "pl.String")})'


def _duckdb_source(facts: SheetFacts) -> str:
    if facts.file.endswith(".parquet"):
        return "read_parquet('data.parquet')"
    types = ", ".join(f"'{column.name.replace(chr(39), chr(39) * 2)}': 'VARCHAR'" for column in facts.columns)
    return (
        f"read_csv('data.csv', header = true, types = {{{types}}})" if types else "read_csv('data.csv', header = true)"
    )


def _r_load(facts: SheetFacts) -> str:
    if facts.file.endswith(".parquet"):
        return 'table <- arrow::read_parquet("data.parquet")'
    types = ", ".join(f"{_literal(column.name)} = 'character'" for column in facts.columns)
    return f'table <- read.csv("data.csv", colClasses = c({types}), check.names = FALSE, na.strings = character())'


def _types(facts: SheetFacts, kind: str) -> str:
    return "{" + ", ".join(f"{_literal(column.name)}: {kind}" for column in facts.columns) + "}"


def _error(facts: SheetFacts, form: str, *, counts: str) -> str:
    if facts.rate is None:
        return ""
    return form.format(counts=counts, share=_number(1 - facts.rate), weight=_number(facts.weight)) + "\n"


def _frame(facts: SheetFacts, people: str, error: str) -> str:
    return people if facts.rate is None else f"{people}, {error}"


def _comment(facts: SheetFacts, mark: str) -> str:
    return "" if facts.rate is None else f"  {mark} 1 / {facts.rate:g}"


def _number(value: float) -> str:
    return f"{value:.12g}"


def _literal(text: str) -> str:
    """A text as Python and R write it."""
    return json.dumps(text, ensure_ascii=False)


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
