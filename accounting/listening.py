"""How a server of this project listens: uvicorn with what the pages and a witness have in common, on a socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..mechanisms.kernel.errors import InputRefused

REQUEST_SECONDS = 10.0  # in which a whole request must have arrived; a keyboard isn't faster, every browser is
MOST_OF_ONE_CLIENT = 32  # connections of one address; a browser opens six, a reverse proxy is one client


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that listens at an address, closed in the end.

    Args:
        host: a name or an address.
        port: 0 for any that is free.

    Raises:
        InputRefused: the address can't be had.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(128)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise InputRefused(
            f"this address can't be had ({error.strerror}).",
            where=f"{host}, port {port}",
            not_done="",
            remedy="Choose another with --host and --port.",
        ) from None
    with listener:
        yield listener


def url_of(host: str, listener: socket.socket, *, scheme: str = "http") -> str:
    """Return the URL at which a server is reached.

    Args:
        host: as it was asked for.
        listener: its socket.
        scheme: http or https.
    """
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{listener.getsockname()[1]}/"


class LimitedConnection(H11Protocol):
    """Speak HTTP/1.1 with a client that can't keep others out by opening connections and saying nothing.

    A connection *waits* from its beginning, or from the end of an answer, until a whole request has arrived. One that
    waits longer than `REQUEST_SECONDS` is closed. Where a client has more than `MOST_OF_ONE_CLIENT` connections, or the
    server has as many as it takes, the one that has waited longest is closed, so that a new client is always served.
    Where none of a client's connections waits, its new one is closed.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, and make room for it."""
        super().connection_made(transport)
        self._wait_for_request()
        # Counted by address: a port is chosen by the client, and each connection has another.
        of_client = [other for other in self._all() if other.client_address == self.client_address]
        if len(of_client) > MOST_OF_ONE_CLIENT and not _close_longest_waiting(of_client, but=self):
            self.close_now()
        elif self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            _close_longest_waiting(self._all(), but=self)

    def data_received(self, data: bytes) -> None:
        """Take what the client sent, and stop the clock once its request is whole."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE and self.conn.their_state is not h11.SEND_BODY:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it has arrived already."""
        super().on_response_complete()
        if self.conn.their_state is h11.IDLE or self.conn.their_state is h11.SEND_BODY:
            self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection that has ended."""
        self._stop_waiting()
        super().connection_lost(exc)

    def close_now(self) -> None:
        """Close the connection without waiting for the client."""
        self._stop_waiting()
        self.connections.discard(self)  # at once: the next client is counted before this one's end is processed
        self.transport.abort()

    @property
    def client_address(self) -> str | None:
        """The client's address without its port."""
        return None if self.client is None else self.client[0]

    @property
    def waits_until(self) -> float | None:
        """The time of the loop at which it is closed; None while a request is answered."""
        return None if self._deadline is None else self._deadline.when()

    def _all(self) -> list[LimitedConnection]:
        return [other for other in self.connections if isinstance(other, LimitedConnection)]

    def _wait_for_request(self) -> None:
        self._stop_waiting()
        self._deadline = self.loop.call_later(REQUEST_SECONDS, self.close_now)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _close_longest_waiting(connections: list[LimitedConnection], *, but: LimitedConnection) -> bool:
    """Close the connection that has waited longest for a request; return whether there was one."""
    deadlines = [(other.waits_until, other) for other in connections if other is not but]
    waiting = [(deadline, id(other), other) for deadline, other in deadlines if deadline is not None]
    if waiting:
        min(waiting)[2].close_now()
    return bool(waiting)


def serve_on(listener: socket.socket, application: Any, **settings: Any) -> None:  # noqa: ANN401 - ASGI's and uvicorn's
    """Serve an application until a signal ends it.

    PRIVACY: uvicorn logs no request and believes no proxy's header; both are the application's own matter.

    Args:
        listener: the socket.
        application: of ASGI.
        settings: uvicorn's, beside those that all servers here have.
    """
    config = uvicorn.Config(
        application,
        access_log=False,
        log_config=None,
        proxy_headers=False,
        server_header=False,
        http=LimitedConnection,
        ws="none",
        timeout_keep_alive=10,
        timeout_graceful_shutdown=5,
        **settings,
    )
    uvicorn.Server(config).run(sockets=[listener])
