"""How a server of this project listens: uvicorn with what the pages and a witness have in common, on a socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from ....mechanisms.errors import InputRefused

__all__ = ["listening", "serve_on", "url_of"]


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
    """The URL at which a server is reached.

    Args:
        host: as it was asked for.
        listener: its socket.
        scheme: http or https.
    """
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{listener.getsockname()[1]}/"


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
        http="h11",
        ws="none",
        timeout_keep_alive=10,
        timeout_graceful_shutdown=5,
        **settings,
    )
    uvicorn.Server(config).run(sockets=[listener])
