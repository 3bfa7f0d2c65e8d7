"""Clients that say nothing keep nobody else out, on the auditors' pages and on a witness, which listen alike."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import httpx
import pytest
from support.half_open import half_open_connections, is_closed_by_server


@pytest.mark.parametrize(("clients", "each"), [(1, 250), (12, 25)], ids=["one client", "many clients"])
def test_clients_that_never_finish_a_request_keep_nobody_out(served, clients, each) -> None:
    with half_open_connections(urlsplit(served.url).port, clients=clients, each=each):
        assert served.get("/health").json() == {"status": "ok"}


def test_a_request_that_does_not_arrive_is_not_waited_for_be_it_a_connections_first_or_its_next(served) -> None:
    port = urlsplit(served.url).port
    with (
        half_open_connections(port, clients=1, each=3) as opened,
        socket.create_connection(("127.0.0.1", port), timeout=120) as connection,
    ):
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET /hea")  # ends the server's own wait for an idle connection
        assert all(is_closed_by_server(one) for one in (*opened, connection))


def test_a_client_with_many_whole_requests_is_answered(served) -> None:
    limits = httpx.Limits(max_connections=30, max_keepalive_connections=30)
    with httpx.Client(base_url=served.url, limits=limits) as client:
        assert {client.get("/health").status_code for _ in range(60)} == {200}
