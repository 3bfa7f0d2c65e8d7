"""The dashboard as an application: its parts put together, its faults as pages, its health and metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from ...mechanisms.refusal import InputRefused, ReleaseFailed
from ..ledger.store import open_store
from .access import Access
from .certificates import Certificates
from .chain_watch import ChainState, ChainWatch
from .following import Follower
from .gate import Gate
from .held_back import HeldBack
from .observing import Observer
from .options import Options
from .rendering import STATIC, fault_page
from .routes import API, router
from .surroundings import Surroundings
from .work import Desk

__all__ = ["dashboard"]

TITLES = {
    404: "There is no such page",
    409: "This page can't be shown",
    422: "This address has a malformed part",
    500: "This page can't be shown",
    503: "The ledger can't be read",
}


def dashboard(options: Options, *, observer: Observer) -> Gate:
    """The whole dashboard; the ledger is opened at once, and for looking only.

    Raises:
        InputRefused: there is no ledger, or nobody could look: it isn't open to all, and there is neither a token
            that opens it nor a proxy.
        ReleaseFailed: the ledger can't be read.
    """
    around = _surroundings(options, observer)
    if not options.open_to_all and not options.proxies and not any(t.opens(_today()) for t in around.tokens()):
        raise InputRefused(
            "these pages would be open to nobody: the ledger has no token that is valid.",
            where="dashboard",
            not_done="",
            remedy="Add one with `crowdblend token add NAME --expires 90d`.",
        )
    application = FastAPI(
        title="crowdblend: the auditors' pages",
        description="Read-only. Amounts are exact decimals, as text. Places are those of entries in the chain.",
        version="1",
        openapi_url=f"{API}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan,
    )
    application.state.around = around
    application.include_router(router())
    application.mount("/static", StaticFiles(directory=STATIC), name="static")
    application.add_api_route("/health", _health, include_in_schema=False)
    application.add_api_route("/metrics", _metrics(observer), include_in_schema=False, response_model=None)
    application.add_exception_handler(RequestValidationError, _malformed)
    application.add_exception_handler(HTTPException, _missing)
    application.add_exception_handler(InputRefused, _refused)
    application.add_exception_handler(ReleaseFailed, _failed(observer))
    for kind in (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        application.add_exception_handler(kind, _damaged(observer))
    access = Access(options, tokens=around.tokens, today=_today)
    return Gate(application, access=access, observer=observer)


def _surroundings(options: Options, observer: Observer) -> Surroundings:
    follower = Follower()

    def ended(state: ChainState) -> None:
        observer.event("verified", verdict=state.verdict, entries=state.verified_to, findings=state.findings_in_all)
        if state.verdict != "sound":
            follower.start_again()

    job = {
        "url": options.ledger_url,
        "anchor": None if options.anchor is None else str(options.anchor),
        "keys": [key.raw.hex() for key in options.anchor_keys],
    }
    store = open_store(options.ledger_url, anchoring=None)
    with store.reading() as connection:
        follower.follow(connection)
    return Surroundings(
        store=store,
        follower=follower,
        watch=ChainWatch(job, ended=ended),
        desk=Desk(),
        calculator=Desk(),
        certificates=Certificates(options.releases),
        held_back=HeldBack(minutes=options.hold_back_minutes),
    )


@asynccontextmanager
async def _lifespan(application: FastAPI) -> AsyncIterator[None]:
    around: Surroundings = application.state.around
    around.watch.start()
    yield
    around.watch.close()
    around.desk.close()
    around.calculator.close()
    around.store.close()


def _health(request: Request) -> dict[str, str]:
    """Whether the ledger can be read; nothing of what it says."""
    around: Surroundings = request.app.state.around
    with around.store.reading() as connection:
        around.follower.follow(connection)
    return {"status": "ok"}


def _metrics(observer: Observer):  # type: ignore[no-untyped-def]  # noqa: ANN202
    def metrics(request: Request) -> PlainTextResponse:
        around: Surroundings = request.app.state.around
        with around.seen() as seen:
            frame = seen.frame()
            facts = {
                "ledger_entries": float(frame.entries),
                "ledger_datasets": float(seen.view.count("dataset")),
                "ledger_releases": float(seen.view.count("release")),
                "chain_sound": float(frame.chain.verdict == "sound"),
                "chain_findings": float(frame.chain.findings_in_all),
                "chain_verified_to": float(-1 if frame.chain.verified_to is None else frame.chain.verified_to),
            }
        return PlainTextResponse(observer.metrics(facts), media_type="text/plain; version=0.0.4; charset=utf-8")

    return metrics


async def _malformed(request: Request, error: Exception) -> Response:
    """A parameter of another form; its value is never repeated."""
    faults = error.errors() if isinstance(error, RequestValidationError) else ()
    names = sorted({str(fault["loc"][-1]) for fault in faults if fault["loc"][0] in ("path", "query")})
    return _page(request, 422, f"These parameters have another form than they must: {', '.join(names)}.")


async def _missing(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    return _page(request, status, "Nothing is known under this address.")


async def _refused(request: Request, error: Exception) -> Response:
    what = error.message if isinstance(error, InputRefused) else ""
    return _page(request, 404, what)


def _failed(observer: Observer):  # type: ignore[no-untyped-def]  # noqa: ANN202
    async def failed(request: Request, error: Exception) -> Response:
        what = error.what if isinstance(error, ReleaseFailed) else ""
        observer.event("unreadable", why=what)
        return _page(request, 503, f"{what} Run crowdblend ledger verify.")

    return failed


def _damaged(observer: Observer):  # type: ignore[no-untyped-def]  # noqa: ANN202
    async def damaged(request: Request, error: Exception) -> Response:
        """What is stored has a form that no ledger writes: the verification says where."""
        around: Surroundings = request.app.state.around
        around.watch.ask()
        observer.event("damaged", kind=type(error).__name__)
        chain = around.watch.state
        if chain.verdict == "sound":
            return _page(request, 500, "The last verification found no fault in the ledger; it is verified once more.")
        found = "; ".join(f"entry {one.position}: {one.what}" for one in chain.findings[:5])
        more = found or "Where it doesn't hold the verification will tell, which has been asked for."
        return _page(request, 409, f"What the ledger holds here can't be read. {more}")

    return damaged


def _page(request: Request, status: int, text: str) -> Response:
    """A fault, as JSON for programs and as a page for people."""
    title = TITLES.get(status, "This can't be shown")
    if request.url.path.startswith((API, "/csv")):
        return JSONResponse({"error": {"status": status, "what": title, "why": text}}, status_code=status)
    return HTMLResponse(fault_page(status=status, title=title, text=text, path=request.url.path), status_code=status)


def _today() -> date:
    return datetime.now(UTC).date()
