"""Nothing goes past the gate but a page that may be asked for, and no fault behind it is shown to anybody."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import UTC, datetime

import httpx
from crowdblend.accounting.dashboard.server.access import Access, Options
from crowdblend.accounting.dashboard.server.app import Gate, Observer, _log_through
from crowdblend.accounting.page_gate import SECURITY_HEADERS

PRIVATE = "people-spring"


async def greeting(scope, receive, send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


async def broken(scope, receive, send) -> None:
    raise RuntimeError(PRIVATE)


async def broken_in_the_middle(scope, receive, send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    raise RuntimeError(PRIVATE)


def gate_before(application, events: list[dict], **options) -> Gate:
    made = Options(ledger_url="sqlite:///x", **options)
    access = Access(made, tokens=tuple, today=lambda: datetime.now(UTC).date())
    return Gate(application, access=access, observer=Observer(lambda line: events.append(json.loads(line))))


def get(gate: Gate, *, headers: dict[str, str] | None = None) -> httpx.Response:
    async def asked() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(gate), base_url="http://localhost") as client:
            return await client.get("/", headers=headers)

    return asyncio.run(asked())


def test_a_fault_behind_the_gate_is_a_page_without_its_text() -> None:
    events: list[dict] = []
    answer = get(gate_before(broken, events))
    assert (answer.status_code, answer.text) == (500, "This page can't be shown.\n")
    assert SECURITY_HEADERS.items() <= dict(answer.headers).items()
    assert [event["event"] for event in events] == ["fault", "request"]
    assert (events[0]["kind"], events[0]["place"].split(",")[0]) == ("RuntimeError", "broken")
    assert events[1]["status"] == 500
    assert PRIVATE not in json.dumps(events)


def test_a_fault_in_the_middle_of_an_answer_begins_no_second_one() -> None:
    events: list[dict] = []
    told: list[dict] = []

    async def send(message) -> None:
        told.append(message)

    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": [(b"host", b"localhost")]}
    asyncio.run(gate_before(broken_in_the_middle, events)(scope, None, send))
    assert [message["type"] for message in told] == ["http.response.start"]
    assert [event["event"] for event in events] == ["fault", "request"]
    assert PRIVATE not in json.dumps(events)


def test_only_http_goes_through_the_gate() -> None:
    gone_through: list[str] = []

    async def inner(scope, receive, send) -> None:
        gone_through.append(scope["type"])

    async def never(*_: object) -> None:
        raise AssertionError("nothing is read or said")

    gate = gate_before(inner, [])
    asyncio.run(gate({"type": "websocket", "path": "/", "headers": []}, never, never))
    assert gone_through == []
    asyncio.run(gate({"type": "lifespan"}, never, never))
    assert gone_through == ["lifespan"]


def test_an_address_that_is_not_written_in_ascii_goes_no_further() -> None:
    for raw_path, query, status in ((b"/\xc3\xa9", b"", 400), (b"/", b"k=\xc3\xa9", 400), (b"/%C3%A9", b"", 200)):
        told: list[dict] = []

        async def send(message, told=told) -> None:
            told.append(message)

        scope = {"type": "http", "method": "GET", "path": "/é", "raw_path": raw_path, "query_string": query}
        gate = gate_before(greeting, [])
        asyncio.run(gate(scope | {"headers": [(b"host", b"localhost")]}, None, send))
        assert told[0]["status"] == status
        assert (b"whatever is not ASCII is written with percent signs" in told[1]["body"]) is (status == 400)


def test_the_servers_own_messages_are_logged_without_what_was_put_into_them(monkeypatch) -> None:
    events: list[dict] = []
    logger = logging.getLogger("uvicorn.error")
    for name in ("handlers", "propagate"):
        monkeypatch.setattr(logger, name, getattr(logger, name))  # as it was, afterwards
    _log_through(Observer(lambda line: events.append(json.loads(line))))
    [handler] = logger.handlers
    handler.handle(logger.makeRecord(logger.name, logging.WARNING, "", 1, "Invalid request of %s", (PRIVATE,), None))
    assert (handler.level, logger.propagate) == (logging.WARNING, False)
    [event] = events
    assert {"event": "server", "level": "warning", "what": "Invalid request of %s"}.items() <= event.items()


def test_who_guesses_too_often_waits_even_with_nothing_in_hand() -> None:
    gate = gate_before(greeting, [], require_token=True)
    wrong = {"authorization": "Bearer cb-nonsense"}
    assert [get(gate, headers=wrong).status_code for _ in range(11)] == [401] * 10 + [429]
    answer = get(gate)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "60")
    assert "hello" not in answer.text
    assert get(gate_before(greeting, [])).text == "hello"
