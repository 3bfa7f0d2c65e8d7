"""A fuzz target for the auditors' pages: any request is answered, and nothing in it makes the pages fail."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

from crowdblend.accounting.dashboard.server.access import Options
from crowdblend.accounting.dashboard.server.app import Observer, dashboard

from .desk import Fault, Run, furnished_desk

__all__ = ["page"]

WORST = 500


def page(folder: Path) -> Run:
    """First line: the address; every other line: a header. A page, or a refusal; the ledger stays as it was."""
    desk = furnished_desk(folder)
    events: list[dict[str, Any]] = []
    application = dashboard(
        Options(ledger_url=desk.url, releases=(folder,)),
        observer=Observer(lambda line: events.append(json.loads(line))),
    )
    before = desk.ledger.read_bytes()

    def run(content: bytes) -> None:
        events.clear()
        status, headers, body = asyncio.run(_asked(application, content))
        if status >= WORST:
            raise Fault(f"status {status}: {body[:200]!r}")
        if any(event["event"] in ("fault", "not sound", "unreadable") for event in events):
            raise Fault(f"{events}")
        if b"Traceback" in body or (b"content-security-policy" not in headers and status not in (405, 421)):
            raise Fault("an answer without its protection")
        if desk.ledger.read_bytes() != before:
            raise Fault("the ledger was changed")

    return run


async def _asked(application: Any, content: bytes) -> tuple[int, dict[bytes, bytes], bytes]:
    """Give one request to the application, and collect its answer."""
    address, *lines = content.split(b"\n")
    path, _, query = address.partition(b"?")
    headers = [(name.strip().lower(), value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
    if not any(name == b"host" for name, _ in headers):
        headers.append((b"host", b"127.0.0.1:8720"))
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": unquote_to_bytes(path).decode("utf-8", "replace") or "/",
        "raw_path": path,
        "query_string": query,
        "headers": headers,
        "client": ("127.0.0.1", 40_000),
        "server": ("127.0.0.1", 8720),
        "root_path": "",
        "state": {},
    }
    told: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        told.append(message)

    await application(scope, receive, send)
    starts = [message for message in told if message["type"] == "http.response.start"]
    if len(starts) != 1:
        raise Fault(f"{len(starts)} answers")
    body = b"".join(message.get("body", b"") for message in told if message["type"] == "http.response.body")
    return starts[0]["status"], dict(starts[0]["headers"]), body
