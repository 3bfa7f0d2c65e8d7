"""A page's context as HTML, as a printable report and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Literal, assert_never

from jinja2 import Environment

from ..jobs.chain_watch import ChainState
from ..pages.calculator import CalculatorPage
from ..pages.chain import EntryPage, VerificationPage
from ..pages.dataset import DatasetPage
from ..pages.overview import OverviewPage
from ..pages.releases import ReleasePage, ReleasesPage
from ..pages.samples import RefusalsPage, SamplesPage
from ..templating import environment
from ..views.pictures import budget_bar, curve_picture, timeline_picture
from ..views.rows import Amount

__all__ = ["STATIC", "Page", "csv_of", "fault_page", "html_of", "rows_of_page"]

HERE = Path(__file__).parents[1]
STATIC = HERE / "static"

Page = (
    OverviewPage
    | DatasetPage
    | ReleasesPage
    | ReleasePage
    | SamplesPage
    | RefusalsPage
    | VerificationPage
    | EntryPage
    | CalculatorPage
)
Form = Literal["page", "report"]
TEMPLATES: Mapping[type[Page], str] = {
    OverviewPage: "overview.html",
    DatasetPage: "dataset.html",
    ReleasesPage: "releases.html",
    ReleasePage: "release.html",
    SamplesPage: "samples.html",
    RefusalsPage: "refusals.html",
    VerificationPage: "verification.html",
    EntryPage: "entry.html",
    CalculatorPage: "calculator.html",
}
# A spreadsheet takes a cell that begins so for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def html_of(page: Page, *, path: str, query: str, form: Form) -> str:
    """A page as HTML.

    Args:
        page: its context.
        path: the page's address without query.
        query: the address's query, with its question mark, or empty.
        form: "report" for one without navigation, to be printed or kept.
    """
    template = _environment().get_template(TEMPLATES[type(page)])
    return template.render(page=page, frame=page.frame, path=path, query=query, form=form)


def fault_page(*, status: int, title: str, text: str, path: str, chain: ChainState | None) -> str:
    """A page that says why there is none; with what a verification found where the ledger does not hold."""
    template = _environment().get_template("fault.html")
    return template.render(
        status=status, title=title, text=text, path=path, chain=chain, frame=None, form="page", query=""
    )


def csv_of(page: Page) -> str:
    """A page's main table as CSV, with a header; text that a spreadsheet would take for a formula is quoted."""
    rows = [dict(_flat(row)) for row in rows_of_page(page)]
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    if rows:
        writer.writerow(rows[0])
    writer.writerows(map(_harmless, row.values()) for row in rows)
    return sink.getvalue()


def rows_of_page(page: Page) -> tuple[object, ...]:  # noqa: PLR0911 - one return for each page
    """The rows of a page's main table."""
    match page:
        case OverviewPage():
            return page.datasets
        case DatasetPage():
            return page.timeline
        case ReleasesPage():
            return page.releases
        case ReleasePage():
            return (page.release,)
        case SamplesPage():
            return page.samples
        case RefusalsPage():
            return page.refusals
        case VerificationPage():
            return page.entries
        case EntryPage():
            return ({name: getattr(page, name) for name in ("position", "kind", "previous", "hash", "body", "what")},)
        case CalculatorPage():
            return page.prices
        case _:
            assert_never(page)


def _flat(row: object) -> Iterable[tuple[str, object]]:
    named = (
        row.items() if isinstance(row, Mapping) else ((field.name, getattr(row, field.name)) for field in fields(row))  # type: ignore[arg-type]
    )
    for name, value in named:
        yield name, value.exact if isinstance(value, Amount) else value


def _harmless(value: object) -> str:
    text = "" if value is None else str(value)
    return f"'{text}" if isinstance(value, str) and text.startswith(FORMULA) else text


@cache
def _environment() -> Environment:
    made = environment(HERE / "templates", short=lambda digest: f"{digest[:12]}…")
    made.globals.update(budget_bar=budget_bar, curve_picture=curve_picture, timeline_picture=timeline_picture)
    return made
