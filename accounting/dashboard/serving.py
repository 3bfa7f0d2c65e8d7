"""The dashboard as a server: one process, ended by a signal."""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections.abc import Callable

import uvicorn

from ...mechanisms.refusal import InputRefused
from .app import dashboard
from .observing import Observer
from .options import Options

__all__ = ["serve"]

LONGEST_HEADERS = 16_384
MOST_AT_ONCE = 200


def serve(options: Options, *, write: Callable[[str], None], ready: Callable[[str], None]) -> None:
    """Serve until a signal ends it.

    Args:
        options: how the dashboard is run.
        write: takes each line of the log.
        ready: told the address once it can be asked.

    Raises:
        InputRefused: there is no ledger, nobody could look, or the address can't be had.
        ReleaseFailed: the ledger can't be read.
    """
    observer = Observer(write)
    _log_through(observer)
    application = dashboard(options, observer=observer)
    listener = _listener(options)
    config = uvicorn.Config(
        application,
        access_log=False,
        log_config=None,
        proxy_headers=False,
        server_header=False,
        http="h11",
        ws="none",
        lifespan="on",
        h11_max_incomplete_event_size=LONGEST_HEADERS,
        limit_concurrency=MOST_AT_ONCE,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=5,
    )
    ready(_address(options.host, listener.getsockname()[1]))
    try:
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        listener.close()


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


def _listener(options: Options) -> socket.socket:
    try:
        found = socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        raise InputRefused(
            f"this address can't be had ({error.strerror}).",
            where=f"{options.host}, port {options.port}",
            not_done="",
            remedy="Choose another with --host and --port.",
        ) from None
    return listener


def _address(host: str, port: int) -> str:
    try:
        shown = f"[{host}]" if ipaddress.ip_address(host).version == 6 else host
    except ValueError:
        shown = host
    return f"http://{shown}:{port}/"
