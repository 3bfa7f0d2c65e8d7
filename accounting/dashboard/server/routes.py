"""The addresses: each page as HTML, as JSON, as CSV and as a printable report, from one builder."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import cache, wraps
from pathlib import Path
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment

from ...templating import environment
from ..pages.chain import entry_page, refusals_page, samples_page, verification_page
from ..pages.overview import dataset_page, overview_page
from ..pages.planning import calculator_page, forecast_page
from ..pages.release_pages import certificate, release_page, releases_page
from ..views.pictures import PICTURES
from ..views.rows import Amount, Page
from ..views.state import DashboardState, PageRequest
from ..work import ChainState

HERE = Path(__file__).parents[1]
STATIC = HERE / "static"

Form = Literal["page", "report"]
# A spreadsheet takes a cell that begins so for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def html_of(page: Page, *, path: str, query: str, form: Form) -> str:
    """Return a page as HTML; its address's query has its question mark, or is empty. A report is without navigation."""
    template = _environment().get_template(f"{type(page).__name__.removesuffix('Page').lower()}.html")
    return template.render(page=page, frame=page.frame, path=path, query=query, form=form)


def fault_page(*, status: int, title: str, text: str, path: str, chain: ChainState | None) -> str:
    """Return a page that says why there is none; with what a verification found where the ledger does not hold."""
    template = _environment().get_template("fault.html")
    return template.render(status=status, title=title, text=text, path=path, chain=chain)


def csv_of(page: Page) -> str:
    """Return a page's main table as CSV, with a header; text that a spreadsheet would take for a formula is quoted."""
    rows = [dict(_flat(row)) for row in page.table]
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    if rows:
        writer.writerow(rows[0])
    writer.writerows(map(_harmless, row.values()) for row in rows)
    return sink.getvalue()


def _flat(row: object) -> Iterable[tuple[str, object]]:
    named = row if isinstance(row, Mapping) else {one.name: getattr(row, one.name) for one in fields(row)}  # type: ignore[arg-type]
    for name, value in named.items():
        yield name, value.exact if isinstance(value, Amount) else value


def _harmless(value: object) -> str:
    text = "" if value is None else str(value)
    return f"'{text}" if isinstance(value, str) and text.startswith(FORMULA) else text


@cache
def _environment() -> Environment:
    made = environment(HERE / "templates", short=lambda digest: f"{digest[:12]}…")
    made.globals.update({picture.__name__: picture for picture in PICTURES}, frame=None, form="page", query="")
    return made


API = "/api/v1"
PAGES: tuple[tuple[str, Callable[..., Page]], ...] = (
    ("/overview", overview_page),
    ("/datasets/{position}", dataset_page),
    ("/datasets/{position}/forecast", forecast_page),
    ("/releases", releases_page),
    ("/releases/{release_id}", release_page),
    ("/samples", samples_page),
    ("/refusals", refusals_page),
    ("/verification", verification_page),
    ("/entries/{position}", entry_page),
    ("/calculator", calculator_page),
)


def router() -> APIRouter:
    """Return all addresses of the pages."""
    routes = APIRouter()
    hidden: dict[str, Any] = {"include_in_schema": False, "response_model": None}
    routes.add_api_route("/", _as_html(overview_page, "page"), response_class=HTMLResponse, **hidden)
    for path, builder in PAGES:
        routes.add_api_route(path, _as_html(builder, "page"), response_class=HTMLResponse, **hidden)
        routes.add_api_route(f"/report{path}", _as_html(builder, "report"), response_class=HTMLResponse, **hidden)
        routes.add_api_route(f"/csv{path}", _as_csv(builder), **hidden)
        routes.add_api_route(API + path, builder, responses=REFUSALS, tags=["pages"])
    routes.add_api_route("/releases/{release_id}/certificate.json", certificate, **hidden)
    routes.add_api_route("/verification/again", verify_again, **hidden)
    return routes


def verify_again(request: Request) -> Response:
    """Ask for a verification, as soon as one may begin, and show its page."""
    dashboard: DashboardState = request.app.state.dashboard
    dashboard.watch.ask()
    return RedirectResponse("/verification", status_code=303)


FAULT_SCHEMA = {"application/json": {"schema": {"type": "object", "required": ["error"]}}}
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"description": text, "content": FAULT_SCHEMA}
    for status, text in (
        (404, "There is no such thing."),
        (409, "The ledger does not hold: what was found, and no figure."),
        (422, "A parameter has another form."),
    )
}


def _as_html(builder: Callable[..., Page], form: Form) -> Callable[..., HTMLResponse]:
    @wraps(builder)
    def endpoint(*args: Any, **kwargs: Any) -> HTMLResponse:  # noqa: ANN401 - those of the builder
        page = builder(*args, **kwargs)
        page_request: PageRequest = kwargs["page_request"]
        path = "/overview" if page_request.path == "/" else page_request.path.removeprefix("/report")
        return HTMLResponse(html_of(page, path=path, query=page_request.query, form=form))

    return endpoint


def _as_csv(builder: Callable[..., Page]) -> Callable[..., Response]:
    @wraps(builder)
    def endpoint(*args: Any, **kwargs: Any) -> Response:  # noqa: ANN401 - those of the builder
        return Response(csv_of(builder(*args, **kwargs)), media_type="text/csv; charset=utf-8; header=present")

    return endpoint
