"""A Prefect server inside this process, for one run whose records go with it: no port, no second interpreter.

It is made of Prefect's own parts: its routes for flows and flow runs, its orchestration rules, its models, and a
database of its own schema. What a single run has no use for is not loaded: other routes, pages, services, the queue of
background work, and the stream of events. Requests reach it over ASGI, so no other user or process can.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from .server import lay_out_database

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["NO_HEARTBEATS", "InProcessServer", "changed_settings", "start_in_process"]

API_URL = "http://prefect-in-process.invalid/api"
"""No address: a request that went past the transport would reach nothing (RFC 2606, `.invalid`)."""
NO_HEARTBEATS = {"heartbeat_frequency": None}
"""Heartbeats are events too; their thread sleeps whole seconds, and the end of a flow waits for it."""


class InProcessServer(httpx.BaseTransport):
    """A server that runs on an event loop in a thread of its own; for a client it is a transport.

    Args:
        home: private folder (0700) of its database.
        template: file of an empty database, made there where there is none.

    Raises:
        Exception: whatever kept Prefect's parts from being loaded, or its database from being made.
    """

    def __init__(self, home: Path, *, template: Path) -> None:
        from pydantic import SecretStr

        database = SecretStr(f"sqlite+aiosqlite:///{home / 'prefect.db'}")
        with changed_settings(api={"url": None}, server={"database": {"connection_url": database}}):
            # The settings of the server's side: every request is handled in them, not in its sender's.
            self._context = contextvars.copy_context()
        self._loop = asyncio.new_event_loop()
        self._context.run(lay_out_database, home, template)
        self._transport = httpx.ASGITransport(app=self._context.run(_application), raise_app_exceptions=False)
        self._thread = threading.Thread(target=self._context.run, args=(self._loop.run_forever,), daemon=True)
        self._thread.start()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Have one request answered."""
        received: list[httpx.Response] = []
        failures: list[BaseException] = []
        answered = threading.Event()

        async def answer() -> None:
            try:
                received.append(await self._answer(request))
            except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
                failures.append(error)
            finally:
                answered.set()

        def begin() -> None:
            task = self._loop.create_task(answer(), context=self._context.copy())
            task.add_done_callback(lambda _: None)

        self._loop.call_soon_threadsafe(begin)
        answered.wait()
        if failures:
            raise httpx.ReadError("Prefect's server in this process failed.", request=request) from failures[0]
        return received[0]

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        inner = httpx.Request(request.method, request.url, headers=request.headers, content=request.read())
        answer = await self._transport.handle_async_request(inner)
        content = await answer.aread()
        return httpx.Response(answer.status_code, headers=answer.headers, content=content)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the flows of this thread to this server; they emit no events, which nobody could ever look at."""
        from prefect.context import SyncClientContext
        from prefect.events.clients import NullEventsClient
        from prefect.events.worker import EventsWorker

        EventsWorker.set_client_override(NullEventsClient)
        asked = {"csrf_support_enabled": False, "server_version_check_enabled": False}
        try:
            settings = changed_settings(api={"url": API_URL}, client=asked, flows=NO_HEARTBEATS)
            with settings, SyncClientContext({"transport": self}) as made:
                made._httpx_settings = None  # so that whoever asks for a client without any is given this one
                yield
        finally:
            EventsWorker.set_client_override(None)

    def stop(self) -> None:
        """End the server's thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)


def changed_settings(**changes: Mapping[str, Any]) -> AbstractContextManager[object]:
    """Prefect's present settings with some changed; to build all of them anew would take a fifth of a second.

    Args:
        changes: of each group of settings, values of its fields, or of a group's in it.
    """
    from prefect.context import SettingsContext, get_settings_context

    def changed(group: Any, values: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any of Prefect's groups of settings
        nested = {
            name: changed(getattr(group, name), value) if isinstance(value, Mapping) else value
            for name, value in values.items()
        }
        return group.model_copy(update=nested)

    present = get_settings_context()
    return SettingsContext(profile=present.profile, settings=changed(present.settings, changes))


def start_in_process(home: Path, *, template: Path) -> InProcessServer | None:
    """Start one; None where this Prefect's parts are not those that it is made of.

    Args:
        home: private folder (0700) of its database.
        template: file of an empty database, made there where there is none.
    """
    try:
        return InProcessServer(home, template=template)
    except (ImportError, AttributeError, TypeError, ValueError, OSError):
        return None


def _application() -> FastAPI:
    """The routes that the flow of a release asks for."""
    from fastapi import FastAPI
    from prefect.server.api import admin, flow_runs, flows

    application = FastAPI(openapi_url=None)
    for router in (flows.router, flow_runs.router, admin.router):
        application.include_router(router, prefix="/api")
    return application
