"""The dashboard as an application: the gate before every page, faults as pages, health and log; one process."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from datetime import UTC, date, datetime
from functools import partial
from typing import Any, assert_never

from anyio import to_thread
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from ....mechanisms.errors import InputRefused, ReleaseFailed
from ...ledger.chain.signed_state import ForgedState, head_of
from ...ledger.database.store import open_store
from ..views.certificates import Certificates
from ..views.ledger_follower import Follower
from ..views.state import DashboardState, NotSound, PublicationDelay
from ..work import ChainState, ChainWatch, JobQueue
from .access import Access, Options
from .listening import listening, serve_on, url_of
from .routes import API, STATIC, fault_page, router

__all__ = ["SECURITY_HEADERS", "Gate", "Observer", "dashboard", "serve", "to_standard_error"]

BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Observer:
    """Counts requests and writes one line for each.

    PRIVACY: neither address, name, path, question nor token is written: the route's pattern alone.

    Args:
        write: takes each line.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._within: Counter[float] = Counter()
        self._seconds = 0.0

    def request(self, *, route: str, method: str, status: int, seconds: float, size: int) -> None:
        """Take note of an answered request."""
        with self._lock:
            self._requests[route, status] += 1
            self._seconds += seconds
            for bucket in BUCKETS:
                self._within[bucket] += seconds <= bucket
        self.event("request", route=route, method=method, status=status, ms=round(1000 * seconds, 1), bytes=size)

    def event(self, name: str, **facts: str | int | float | None) -> None:
        """Write one line of the log."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._write(json.dumps({"time": now, "event": name, **facts}))

    def metrics(self, facts: Mapping[str, float]) -> str:
        """Everything counted, and public facts of the ledger, in Prometheus' text format."""
        lines = []
        for name, value in facts.items():
            lines += [f"# TYPE crowdblend_{name} gauge", f"crowdblend_{name} {value:g}"]
        with self._lock:
            lines.append("# TYPE crowdblend_dashboard_requests_total counter")
            lines += [
                f'crowdblend_dashboard_requests_total{{route="{route}",status="{status}"}} {times}'
                for (route, status), times in sorted(self._requests.items())
            ]
            total = self._requests.total()
            lines.append("# TYPE crowdblend_dashboard_request_seconds histogram")
            lines += [
                f'crowdblend_dashboard_request_seconds_bucket{{le="{bucket:g}"}} {self._within[bucket]}'
                for bucket in BUCKETS
            ]
            lines += [
                f'crowdblend_dashboard_request_seconds_bucket{{le="+Inf"}} {total}',
                f"crowdblend_dashboard_request_seconds_sum {self._seconds:.6f}",
                f"crowdblend_dashboard_request_seconds_count {total}",
            ]
        return "\n".join(lines) + "\n"


def to_standard_error(line: str) -> None:
    """Write a line to standard error, in one piece."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

LONGEST_ADDRESS = 4_096
LONGEST_HEADERS = 16_384
SECURITY_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), browsing-topics=()",
    "cache-control": "no-store",
    "vary": "Authorization",
}
OPEN = "/health"
CHALLENGE = 'Basic realm="crowdblend: any user name, and your token as the password", charset="UTF-8"'


class Gate:
    """Lets through what may go on, and answers the rest itself.

    Args:
        inner: the pages.
        access: who may look.
        observer: takes note of each request.
    """

    def __init__(self, inner: Application, *, access: Access, observer: Observer) -> None:
        self._inner, self._access, self._observer = inner, access, observer

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        begun = time.perf_counter()
        said = {"status": 0, "size": 0}
        hidden = scope["method"] == "HEAD"

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                said["status"] = message["status"]
                own = [(name, value) for name, value in message["headers"] if name.decode() not in SECURITY_HEADERS]
                extra = [(name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
                message = {**message, "headers": [*own, *extra]}
            else:
                said["size"] += len(message.get("body", b""))
                if hidden:
                    message = {**message, "body": b""}
            await send(message)

        scope = {**scope, "method": "GET"} if hidden else scope
        refusal = await self._refusal(scope)
        try:
            if refusal is None:
                await self._inner(scope, receive, guarded)
            else:
                await _answer(guarded, *refusal)
        except Exception as fault:  # noqa: BLE001 - the last resort: nobody is shown a traceback, nor is the log
            trace = fault.__traceback__
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            place = None if trace is None else f"{trace.tb_frame.f_code.co_name}, line {trace.tb_lineno}"
            self._observer.event("fault", kind=type(fault).__name__, place=place)
            if not said["status"]:
                await _answer(guarded, 500, "This page can't be shown.", {})
        route = "refused" if refusal is not None else str(getattr(scope.get("route"), "path", "none"))
        self._observer.request(
            route=route,
            method="HEAD" if hidden else "GET" if scope["method"] == "GET" else "other",
            status=said["status"],
            seconds=time.perf_counter() - begun,
            size=said["size"],
        )

    async def _refusal(  # noqa: PLR0911 - one return for each reason
        self, scope: Message
    ) -> tuple[int, str, dict[str, str]] | None:
        """Why a request doesn't go on: status, text and headers; None where it does."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        values = Counter(name.decode("latin-1") for name, _ in scope["headers"])
        if scope["method"] != "GET":
            return 405, "These pages are for reading only.", {"allow": "GET, HEAD"}
        if values["host"] != 1 or not self._access.knows_host(headers.get("host")):
            return 421, "These pages don't go by this name.", {}
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > LONGEST_ADDRESS:
            return 414, "The address is too long.", {}
        if sum(len(name) + len(value) for name, value in scope["headers"]) > LONGEST_HEADERS:
            return 431, "The headers are too long.", {}
        if not ((scope.get("raw_path") or b"").isascii() and scope["query_string"].isascii()):
            return 400, "In an address, whatever is not ASCII is written with percent signs.", {}
        if scope["path"] == OPEN:
            return None
        peer = scope["client"][0] if scope.get("client") else ""
        try:
            decision = await to_thread.run_sync(partial(self._access.decide, peer=peer, headers=headers, values=values))
        except ReleaseFailed:
            return 503, "The ledger can't be read.", {"retry-after": "10"}
        match decision:
            case "in":
                return None
            case "too many":
                return 429, "Too many wrong attempts. Try again in a minute.", {"retry-after": "60"}
            case "who" | "wrong":
                return 401, "These pages need a token: crowdblend token add.", {"www-authenticate": CHALLENGE}
            case _:
                assert_never(decision)


async def _answer(send: Send, status: int, text: str, headers: dict[str, str]) -> None:
    body = (text + "\n").encode()
    own = {"content-type": "text/plain; charset=utf-8", "content-length": str(len(body)), **headers}
    encoded = [(name.encode(), value.encode()) for name, value in own.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


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
    state = _dashboard_state(options, observer)
    if not options.open_to_all and not options.proxies and not any(t.opens(_today()) for t in state.tokens()):
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
    application.state.dashboard = state
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
    access = Access(options, tokens=state.tokens, today=_today)
    return Gate(application, access=access, observer=observer)


def _dashboard_state(options: Options, observer: Observer) -> DashboardState:
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
    return DashboardState(
        store=store,
        follower=follower,
        watch=ChainWatch(job, ended=ended),
        queue=JobQueue(),
        calculator=JobQueue(),
        certificates=Certificates(options.releases),
        publication_delay=PublicationDelay(minutes=options.hold_back_minutes),
    )


@asynccontextmanager
async def _lifespan(application: FastAPI) -> AsyncIterator[None]:
    state: DashboardState = application.state.dashboard
    state.watch.start()
    yield
    state.watch.close()
    state.queue.close()
    state.calculator.close()
    state.store.close()


def _health(request: Request) -> dict[str, str]:
    """Whether the ledger can be read; nothing of what it says."""
    state: DashboardState = request.app.state.dashboard
    with state.store.reading() as connection:
        head_of(connection)
    return {"status": "ok"}


def _metrics(observer: Observer):  # type: ignore[no-untyped-def]  # noqa: ANN202
    def metrics(request: Request) -> PlainTextResponse:
        state: DashboardState = request.app.state.dashboard
        chain = state.watch.state
        facts = {
            "chain_sound": float(chain.verdict == "sound"),
            "chain_findings": float(chain.findings_in_all),
            "chain_verified_to": float(-1 if chain.verified_to is None else chain.verified_to),
        }
        with suppress(NotSound, ForgedState), state.page_request() as page_request:
            facts |= {
                "ledger_entries": float(page_request.frame().entries),
                "ledger_datasets": float(page_request.view.count("dataset")),
                "ledger_releases": float(page_request.view.count("release")),
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
        request.app.state.dashboard.watch.ask()
        observer.event("unreadable", why=what)
        return _page(request, 503, f"{what} Run crowdblend ledger verify.")

    return failed


def _not_sound(observer: Observer):  # type: ignore[no-untyped-def]  # noqa: ANN202
    async def not_sound(request: Request, error: Exception) -> Response:
        """What is stored doesn't hold, by the last verification or by what a page found: findings, and no figure."""
        watch: ChainWatch = request.app.state.dashboard.watch
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


MOST_AT_ONCE = 200


def serve(options: Options, *, write: Callable[[str], None], ready: Callable[[str], None]) -> None:
    """Serve until a signal ends it.

    Args:
        options: how the dashboard is run.
        write: takes each line of the log.
        ready: called with the address once it can be asked.

    Raises:
        InputRefused: there is no ledger, nobody could look, or the address can't be had.
        ReleaseFailed: the ledger can't be read.
    """
    observer = Observer(write)
    _log_through(observer)
    application = dashboard(options, observer=observer)
    with listening(options.host, options.port) as listener:
        ready(url_of(options.host, listener))
        serve_on(
            listener,
            application,
            lifespan="on",
            h11_max_incomplete_event_size=LONGEST_HEADERS,
            limit_concurrency=MOST_AT_ONCE,
        )


class _OneLine(logging.Handler):
    """Turns the server's own messages into events of the one log."""

    def __init__(self, observer: Observer) -> None:
        super().__init__(logging.WARNING)
        self._observer = observer

    def emit(self, record: logging.LogRecord) -> None:
        # PRIVACY: the message's fixed pattern; what is put into it could name who asked, and what for.
        self._observer.event("server", level=record.levelname.lower(), what=str(record.msg))


def _log_through(observer: Observer) -> None:
    logger = logging.getLogger("uvicorn.error")
    logger.handlers = [_OneLine(observer)]
    logger.propagate = False
