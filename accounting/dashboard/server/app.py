"""The dashboard as an application: the gate before every page, faults as pages, health and log; one process."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from datetime import UTC, date, datetime
from functools import partial

from anyio import to_thread
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from ....mechanisms.kernel.errors import AccountantRefused, InputRefused, ReleaseFailed
from ...kernel.ledger.transactions import last_place
from ...ledger.opening import open_store
from ...listening import listening, serve_on, url_of
from ...page_gate import LONGEST_HEADERS, Application, Message, PageGate, Refused
from ..views.certificates import Certificates
from ..views.state import DashboardState, Follower, IntervalWatch, NotSound, PublicationDelay
from ..work import ChainState, ChainWatch, JobQueue
from .access import Access, Decision, Options
from .routes import API, STATIC, fault_page, router

BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Observer:
    """Counts requests and writes one line for each.

    PRIVACY: neither address, name, path, question nor token is written: the route's pattern alone.
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
        """Return everything counted, and public facts of the ledger, in Prometheus' text format."""
        lines = [f"# TYPE crowdblend_{name} gauge\ncrowdblend_{name} {value:g}" for name, value in facts.items()]
        own = "crowdblend_dashboard_request"
        with self._lock:
            total = self._requests.total()
            lines.append(f"# TYPE {own}s_total counter")
            for (route, status), times in sorted(self._requests.items()):
                lines.append(f'{own}s_total{{route="{route}",status="{status}"}} {times}')
            lines.append(f"# TYPE {own}_seconds histogram")
            lines += [f'{own}_seconds_bucket{{le="{bucket:g}"}} {self._within[bucket]}' for bucket in BUCKETS]
            lines += [f'{own}_seconds_bucket{{le="+Inf"}} {total}', f"{own}_seconds_sum {self._seconds:.6f}"]
        return "\n".join([*lines, f"{own}_seconds_count {total}"]) + "\n"


def to_standard_error(line: str) -> None:
    """Write a line to standard error, in one piece."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


OPEN = "/health"
CHALLENGE = 'Basic realm="crowdblend: any user name, and your token as the password", charset="UTF-8"'
NO_TOKEN: Refused = (401, "These pages need a token: crowdblend token add.", {"www-authenticate": CHALLENGE})
DECISIONS: dict[Decision, Refused | None] = {
    "in": None,
    "too many": (429, "Too many wrong attempts. Try again in a minute.", {"retry-after": "60"}),
    **dict.fromkeys(("who", "wrong"), NO_TOKEN),
}


class Gate(PageGate):
    """Lets through who may look at the dashboard; the observer takes note of each request."""

    WRONG_METHOD = "These pages are for reading only."

    def __init__(self, inner: Application, *, access: Access, observer: Observer) -> None:
        super().__init__(inner)
        self._access, self._observer = access, observer

    def knows_host(self, host: str | None) -> bool:
        """Return whether a Host header is one that the dashboard goes by."""
        return self._access.knows_host(host)

    def note_fault(self, *, kind: str, place: str) -> None:
        """Write it to the log."""
        self._observer.event("fault", kind=kind, place=place)

    def note_answer(self, *, route: str, method: str, status: int, seconds: float, size: int) -> None:
        """Count it, and write it to the log."""
        self._observer.request(route=route, method=method, status=status, seconds=seconds, size=size)

    async def refusal_of_person(
        self, scope: Message, headers: Mapping[str, str], values: Mapping[str, int]
    ) -> Refused | None:
        """Return why whoever asks is not let in, by what access is decided on."""
        if scope["path"] == OPEN:
            return None
        peer = scope["client"][0] if scope.get("client") else ""
        try:
            decision = await to_thread.run_sync(partial(self._access.decide, peer=peer, headers=headers, values=values))
        except ReleaseFailed:
            return 503, "The ledger can't be read.", {"retry-after": "10"}
        return DECISIONS[decision]


TITLES = {
    404: "There is no such page",
    409: "No figure of this ledger is shown",
    422: "This address has a malformed part",
    500: "This page can't be shown",
    503: "The ledger can't be read",
}


def dashboard(options: Options, *, observer: Observer) -> Gate:
    """Return the whole dashboard; the ledger is opened at once, and for looking only.

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
    application.add_api_route("/metrics", _metrics, include_in_schema=False, response_model=None)
    application.state.observer = observer
    for kind in (*REFUSED, *UNSOUND):
        application.add_exception_handler(kind, _fault)
    return Gate(application, access=Access(options, tokens=state.tokens, today=_today), observer=observer)


def _dashboard_state(options: Options, observer: Observer) -> DashboardState:
    def ended(state: ChainState) -> None:
        observer.event("verified", verdict=state.verdict, entries=state.verified_to, findings=state.findings_in_all)

    anchor, keys = options.anchor, [key.raw.hex() for key in options.anchor_keys]
    job = {"url": options.ledger_url, "anchor": None if anchor is None else str(anchor), "keys": keys}
    follower = Follower(PublicationDelay(minutes=options.hold_back_minutes))
    store = open_store(options.ledger_url, read_only=True)
    # A ledger that doesn't hold still has pages: they show what was found.
    with suppress(AccountantRefused), store.reading() as connection:
        follower.follow(connection)
    return DashboardState(
        store=store,
        follower=follower,
        watch=ChainWatch(job, ended=ended),
        queue=JobQueue(),
        calculator=JobQueue(),
        certificates=Certificates(options.releases),
    )


@asynccontextmanager
async def _lifespan(application: FastAPI) -> AsyncIterator[None]:
    state: DashboardState = application.state.dashboard
    intervals = IntervalWatch(state.store, state.follower)
    intervals.start()
    state.watch.start()
    yield
    for part in (intervals, state.watch, state.queue, state.calculator, state.store):
        part.close()


def _health(request: Request) -> dict[str, str]:
    """Return whether the ledger can be read; nothing of what it says."""
    state: DashboardState = request.app.state.dashboard
    with state.store.reading() as connection:
        last_place(connection)
    return {"status": "ok"}


def _metrics(request: Request) -> PlainTextResponse:
    state: DashboardState = request.app.state.dashboard
    chain = state.chain
    facts = {
        "chain_sound": float(chain.verdict == "sound"),
        "chain_findings": float(chain.findings_in_all),
        "chain_verified_to": float(-1 if chain.verified_to is None else chain.verified_to),
    }
    with suppress(NotSound, AccountantRefused), state.page_request() as page_request:
        facts["ledger_entries"] = float(page_request.frame().entries)
        facts["ledger_datasets"] = float(len(page_request.state.datasets))
        facts["ledger_releases"] = float(len(page_request.state.releases))
    text = request.app.state.observer.metrics(facts)
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")


async def _fault(request: Request, error: Exception) -> Response:
    """Return why there is no page; what the ledger's state has to do with it is verified once more."""
    watch, event = request.app.state.dashboard.watch, request.app.state.observer.event
    match error:
        case RequestValidationError():  # a parameter's value is never repeated
            names = sorted({str(one["loc"][-1]) for one in error.errors() if one["loc"][0] in ("path", "query")})
            return _page(request, 422, f"These parameters have another form than they must: {', '.join(names)}.")
        case InputRefused():
            return _page(request, 404, error.message)
        case HTTPException():
            return _page(request, error.status_code, "Nothing is known under this address.")
        case ReleaseFailed():
            watch.ask()
            event("unreadable", why=error.what)
            return _page(request, 503, f"{error.what} Run crowdblend ledger verify.")
    # What is stored doesn't hold, by the last verification or by what a page found: findings, and no figure.
    watch.ask()
    chain: ChainState = request.app.state.dashboard.chain
    event("not sound", kind=type(error).__name__, verdict=chain.verdict)
    if isinstance(error, NotSound):
        why = "The last verification could not be done." if chain.verdict == "failed" else "It does not verify."
    elif isinstance(error, AccountantRefused):
        why = error.what
    elif chain.verdict != "sound":
        why = "What it holds here can't be read."
    else:
        return _page(request, 500, "The last verification found no fault in the ledger; it is verified once more.")
    return _page(request, 409, why, chain=chain)


REFUSED = (RequestValidationError, HTTPException, InputRefused, ReleaseFailed)
UNSOUND = (NotSound, AccountantRefused, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


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
    """Serve until a signal ends it; `write` takes each line of the log, `ready` the address once it can be asked.

    Raises:
        InputRefused: there is no ledger, nobody could look, or the address can't be had.
        ReleaseFailed: the ledger can't be read.
    """
    observer = Observer(write)
    _log_through(observer)
    gate = dashboard(options, observer=observer)
    with listening(options.host, options.port) as listener:
        ready(url_of(options.host, listener))
        serve_on(
            listener, gate, lifespan="on", h11_max_incomplete_event_size=LONGEST_HEADERS, limit_concurrency=MOST_AT_ONCE
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
