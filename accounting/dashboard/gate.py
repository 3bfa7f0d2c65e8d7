"""The gate before every page: method, host, length, identity; and what every answer bears."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any, assert_never

from anyio import to_thread

from ...mechanisms.refusal import ReleaseFailed
from .access import Access
from .observing import Observer

__all__ = ["SECURITY_HEADERS", "Gate"]

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
            elif message["type"] == "http.response.body":
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
