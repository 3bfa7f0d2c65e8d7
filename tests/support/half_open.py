"""Clients that connect to a server on this machine and never finish a request."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

BEGINNINGS = (
    b"",
    b"GET / HTTP/1.1\r\n",
    b"POST /add-checkpoint HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nold",
)


@contextmanager
def half_open_connections(port: int, *, clients: int, each: int) -> Iterator[list[socket.socket]]:
    """Open connections from several addresses of the loopback range, none with a whole request.

    Args:
        port: of the server, at 127.0.0.1.
        clients: how many addresses.
        each: connections of each.
    """
    with ExitStack() as stack:
        opened = []
        for client in range(clients):
            for number in range(each):
                source = (f"127.0.0.{client + 2}", 0)
                connection = socket.create_connection(("127.0.0.1", port), timeout=120, source_address=source)
                stack.callback(connection.close)
                connection.sendall(BEGINNINGS[number % len(BEGINNINGS)])
                opened.append(connection)
        yield opened


def is_closed_by_server(connection: socket.socket) -> bool:
    """Wait until the server has closed a connection; whatever it answers before is read."""
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True
