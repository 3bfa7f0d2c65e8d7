"""The addresses: each page as HTML, as JSON, as CSV and as a printable report, from one builder."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from functools import cache, wraps
from pathlib import Path
from typing import Annotated, Any, Literal, assert_never

from fastapi import APIRouter, Depends, Query, Request
from fastapi import Path as PathParameter
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment

from ..pages.chain import EntryPage, VerificationPage, entry_page, verification_page
from ..pages.overview import DatasetPage, OverviewPage, dataset_page, overview_page
from ..pages.planning import Asked, AskedCalendars, CalculatorPage, ForecastPage, calculator_page, forecast_page
from ..pages.releases import ReleasePage, ReleasesPage, certificate_of, release_page, releases_page
from ..pages.samples import RefusalsPage, SamplesPage, refusals_page, samples_page
from ..templating import environment
from ..views.pictures import (
    budget_bar,
    change_picture,
    curve_picture,
    lasting_picture,
    shares_picture,
    timeline_picture,
)
from ..views.rows import Amount
from ..views.state import DashboardState, PageRequest
from ..work import ChainState

__all__ = ["API", "STATIC", "Page", "fault_page", "router"]

HERE = Path(__file__).parents[1]
STATIC = HERE / "static"

Page = (
    OverviewPage
    | DatasetPage
    | ForecastPage
    | ReleasesPage
    | ReleasePage
    | SamplesPage
    | RefusalsPage
    | VerificationPage
    | EntryPage
    | CalculatorPage
)
Form = Literal["page", "report"]
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
    template = _environment().get_template(f"{type(page).__name__.removesuffix('Page').lower()}.html")
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
            return page.shares or page.timeline
        case ForecastPage():
            return page.rows
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
    pictures = (budget_bar, change_picture, curve_picture, lasting_picture, shares_picture, timeline_picture)
    made.globals.update((picture.__name__, picture) for picture in pictures)
    return made


API = "/api/v1"
LAST = 2**53


def _page_request(request: Request) -> Iterator[PageRequest]:
    dashboard: DashboardState = request.app.state.dashboard
    with dashboard.page_request(path=request.url.path, query=request.url.query) as page_request:
        yield page_request


OneState = Annotated[PageRequest, Depends(_page_request)]
Position = Annotated[int, PathParameter(ge=0, le=LAST, description="Place of an entry in the chain, from 0.")]
Before = Annotated[int | None, Query(ge=0, le=LAST, description="Only what stands before this place in the chain.")]
After = Annotated[int | None, Query(ge=0, le=LAST, description="Only what stands after this place in the chain.")]
ReleaseId = Annotated[
    str, PathParameter(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:+@-]{0,127}$", description="A release's id.")
]
Cause = Annotated[str | None, Query(min_length=1, max_length=200, description="The rule that refused.")]
Number = Annotated[str, Query(max_length=60)]
Calendars = Annotated[str, Query(max_length=200)]


def overview(page_request: OneState, after: After = None) -> OverviewPage:
    """Every data set with its budget, the latest releases and refusals."""
    return overview_page(page_request, after=after)


def dataset(page_request: OneState, position: Position, before: Before = None) -> DatasetPage:
    """A data set, by the place of its registration."""
    return dataset_page(page_request, position, before=before)


def forecast(
    page_request: OneState, position: Position, calendars: Calendars = "", k: Number = "", sampling_rate: Number = ""
) -> ForecastPage:
    """How long what is left of a data set's budget lasts, under calendars with semicolons between them."""
    return forecast_page(page_request, position, AskedCalendars(calendars=calendars, k=k, sampling_rate=sampling_rate))


def releases(page_request: OneState, before: Before = None) -> ReleasesPage:
    """All releases, the latest first."""
    return releases_page(page_request, before=before)


def release(page_request: OneState, release_id: ReleaseId) -> ReleasePage:
    """A release."""
    return release_page(page_request, release_id)


def samples(page_request: OneState, before: Before = None) -> SamplesPage:
    """All samples, the latest first."""
    return samples_page(page_request, before=before)


def refusals(page_request: OneState, before: Before = None, cause: Cause = None) -> RefusalsPage:
    """All refusals, the latest first."""
    return refusals_page(page_request, before=before, cause=cause)


def verification(page_request: OneState, before: Before = None) -> VerificationPage:
    """What the last verification of the chain found, and its entries."""
    return verification_page(page_request, before=before)


def entry(page_request: OneState, position: Position) -> EntryPage:
    """One entry, with its bytes."""
    return entry_page(page_request, position)


def calculator(
    page_request: OneState,
    k: Number = "",
    sampling_rate: Number = "",
    epsilon: Number = "",
    delta: Number = "",
    releases: Number = "",
) -> CalculatorPage:
    """What releases would cost; what is left out among k, sampling rate, ε and δ is filled in."""
    return calculator_page(
        page_request, Asked(k=k, sampling_rate=sampling_rate, epsilon=epsilon, delta=delta, releases=releases)
    )


PAGES: tuple[tuple[str, Callable[..., Page], type[Page]], ...] = (
    ("/overview", overview, OverviewPage),
    ("/datasets/{position}", dataset, DatasetPage),
    ("/datasets/{position}/forecast", forecast, ForecastPage),
    ("/releases", releases, ReleasesPage),
    ("/releases/{release_id}", release, ReleasePage),
    ("/samples", samples, SamplesPage),
    ("/refusals", refusals, RefusalsPage),
    ("/verification", verification, VerificationPage),
    ("/entries/{position}", entry, EntryPage),
    ("/calculator", calculator, CalculatorPage),
)


def router() -> APIRouter:
    """All addresses of the pages."""
    routes = APIRouter()
    hidden: dict[str, Any] = {"include_in_schema": False, "response_model": None}
    routes.add_api_route("/", _as_html(overview, "page"), response_class=HTMLResponse, **hidden)
    for path, builder, context in PAGES:
        routes.add_api_route(path, _as_html(builder, "page"), response_class=HTMLResponse, **hidden)
        routes.add_api_route(f"/report{path}", _as_html(builder, "report"), response_class=HTMLResponse, **hidden)
        routes.add_api_route(f"/csv{path}", _as_csv(builder), **hidden)
        routes.add_api_route(API + path, builder, response_model=context, responses=REFUSALS, tags=["pages"])
    routes.add_api_route("/releases/{release_id}/certificate.json", certificate, **hidden)
    routes.add_api_route("/verification/again", verify_again, **hidden)
    return routes


def certificate(page_request: OneState, release_id: ReleaseId) -> Response:
    """A release's certificate, byte for byte as it was published."""
    content = certificate_of(page_request, release_id)
    shown = {"content-disposition": f'attachment; filename="{release_id.replace(":", "-")}-certificate.json"'}
    return Response(content, media_type="application/json", headers=shown)


def verify_again(request: Request) -> Response:
    """Ask for a verification, as soon as one may begin, and show its page."""
    dashboard: DashboardState = request.app.state.dashboard
    dashboard.watch.ask()
    return RedirectResponse("/verification", status_code=303)


REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {
        "description": text,
        "content": {"application/json": {"schema": {"type": "object", "required": ["error"]}}},
    }
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
