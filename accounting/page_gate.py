"""Decide which requests go on to the pages of a server here, and add the headers that every answer has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from time import perf_counter
from traceback import walk_tb
from typing import Any, ClassVar

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]
Refused = tuple[int, str, dict[str, str]]  # status, text and headers

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


class PageGate(ABC):
    """Lets through what may go on to the pages, and answers the rest."""

    METHODS: ClassVar[tuple[str, ...]] = ("GET",)
    """Those that go on, beside HEAD, which is answered as GET without a body."""
    WRONG_METHOD: ClassVar[str]
    """The text of the refusal of any other method."""

    def __init__(self, inner: Application) -> None:
        self._inner = inner

    def headers_of(self, path: str) -> Mapping[str, str]:  # noqa: ARG002 - some pages have others
        """Return the headers that every answer under a path bears, whoever gave it."""
        return SECURITY_HEADERS

    @abstractmethod
    def knows_host(self, host: str | None) -> bool:
        """Return whether a Host header is one that the pages go by."""

    @abstractmethod
    async def refusal_of_person(
        self, scope: Message, headers: Mapping[str, str], values: Mapping[str, int]
    ) -> Refused | None:
        """Return why whoever asks is not let in; None where they are.

        Args:
            scope: of the request.
            headers: by their names in lower case.
            values: how often each header was sent.
        """

    @abstractmethod
    def note_fault(self, *, kind: str, place: str) -> None:
        """Take note of a fault behind the gate."""

    @abstractmethod
    def note_answer(self, *, route: str, method: str, status: int, seconds: float, size: int) -> None:
        """Take note of an answered request."""

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        begun = perf_counter()
        said = {"status": 0, "size": 0}
        hidden = scope["method"] == "HEAD"
        always = self.headers_of(scope["path"])

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                said["status"] = message["status"]
                # Here and not in the pages: a page that forgot one, or a library's own error page, has them too.
                own = [(name, value) for name, value in message["headers"] if name.decode() not in always]
                extra = [(name.encode(), value.encode()) for name, value in always.items()]
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
            # PRIVACY: the place of a fault is noted and not its text, which could repeat what was asked.
            *_, (frame, number) = walk_tb(fault.__traceback__)
            self.note_fault(kind=type(fault).__name__, place=f"{frame.f_code.co_name}, line {number}")
            if not said["status"]:
                await _answer(guarded, 500, "This page can't be shown.", {})
        self.note_answer(
            route="refused" if refusal is not None else str(getattr(scope.get("route"), "path", "none")),
            method="HEAD" if hidden else scope["method"] if scope["method"] in self.METHODS else "other",
            status=said["status"],
            seconds=perf_counter() - begun,
            size=said["size"],
        )

    async def _refusal(self, scope: Message) -> Refused | None:
        """Return why a request doesn't go on; None where it does."""
        named = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        headers, values = dict(named), Counter(name for name, _ in named)
        address = (scope.get("raw_path") or b"", scope["query_string"])
        allowed = {"allow": ", ".join((*self.METHODS, "HEAD"))}
        # A name that isn't known is refused before anything else: a foreign page whose name was pointed to this address
        # (DNS rebinding) reads nothing.
        unknown = values["host"] != 1 or not self.knows_host(headers.get("host"))
        long = sum(len(name) + len(value) for name, value in named) > LONGEST_HEADERS
        foreign = not all(map(bytes.isascii, address))
        refused: tuple[tuple[bool, Refused], ...] = (
            (scope["method"] not in self.METHODS, (405, self.WRONG_METHOD, allowed)),
            (unknown, (421, "These pages don't go by this name.", {})),
            (sum(map(len, address)) > LONGEST_ADDRESS, (414, "The address is too long.", {})),
            (long, (431, "The headers are too long.", {})),
            (foreign, (400, "In an address, whatever is not ASCII is written with percent signs.", {})),
        )
        refusal = next((why for wrong, why in refused if wrong), None)
        return refusal or await self.refusal_of_person(scope, headers, values)


async def _answer(send: Send, status: int, text: str, headers: dict[str, str]) -> None:
    body = (text + "\n").encode()
    own = {"content-type": "text/plain; charset=utf-8", "content-length": str(len(body)), **headers}
    encoded = [(name.encode(), value.encode()) for name, value in own.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})
