"""The dashboard as an application: its parts put together, its faults as pages, its health and metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from datetime import UTC, date, datetime

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from ...mechanisms.refusal import InputRefused, ReleaseFailed
from ..ledger.append import head_of
from ..ledger.signed_state import ForgedState
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
from .surroundings import NotSound, Surroundings
from .work import Desk

__all__ = ["dashboard"]

TITLES = {
    404: "There is no such page",
    409: "No figure of this ledger is shown",
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
    for kind in (NotSound, ForgedState, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        application.add_exception_handler(kind, _not_sound(observer))
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
    with suppress(ForgedState), store.reading() as connection:
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
        head_of(connection)
    return {"status": "ok"}


def _metrics(observer: Observer):  # type: ignore[no-untyped-def]  # noqa: ANN202
    def metrics(request: Request) -> PlainTextResponse:
        around: Surroundings = request.app.state.around
        chain = around.watch.state
        facts = {
            "chain_sound": float(chain.verdict == "sound"),
            "chain_findings": float(chain.findings_in_all),
            "chain_verified_to": float(-1 if chain.verified_to is None else chain.verified_to),
        }
        with suppress(NotSound, ForgedState), around.seen() as seen:
            facts |= {
                "ledger_entries": float(seen.frame().entries),
                "ledger_datasets": float(seen.view.count("dataset")),
                "ledger_releases": float(seen.view.count("release")),
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
        request.app.state.around.watch.ask()
        observer.event("unreadable", why=what)
        return _page(request, 503, f"{what} Run crowdblend ledger verify.")

    return failed


def _not_sound(observer: Observer):  # type: ignore[no-untyped-def]  # noqa: ANN202
    async def not_sound(request: Request, error: Exception) -> Response:
        """What is stored doesn't hold, by the last verification or by what a page found: findings, and no figure."""
        watch: ChainWatch = request.app.state.around.watch
        watch.ask()
        chain = watch.state
        observer.event("not sound", kind=type(error).__name__, verdict=chain.verdict)
        if isinstance(error, NotSound):
            why = "The last verification could not be done." if chain.verdict == "failed" else "It does not verify."
        elif isinstance(error, ForgedState):
            why = error.what
        elif chain.verdict != "sound":
            why = "What it holds here can't be read."
        else:
            return _page(request, 500, "The last verification found no fault in the ledger; it is verified once more.")
        return _page(request, 409, why, chain=chain)

    return not_sound


def _page(request: Request, status: int, text: str, *, chain: ChainState | None = None) -> Response:
    """Why there is no page, as JSON for programs and as a page for people; with what a verification found, if given."""
    title = TITLES.get(status, "This can't be shown")
    path = request.url.path
    if path.startswith((API, "/csv")):
        error = {"status": status, "what": title, "why": text} | ({} if chain is None else {"chain": asdict(chain)})
        return JSONResponse({"error": error}, status_code=status)
    return HTMLResponse(fault_page(status=status, title=title, text=text, path=path, chain=chain), status_code=status)


def _today() -> date:
    return datetime.now(UTC).date()
