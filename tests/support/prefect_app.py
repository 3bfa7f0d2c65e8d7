"""Prefect's server for several processes of tests at once, on one SQLite database.

Prefect begins most transactions that write as readers. SQLite refuses such a one at once where another has written
since; Prefect answers 503, and its client sleeps for seconds and gives up after some times, or waits for the minute
after which a lock is given up. A transaction that takes its turn before it reads waits milliseconds instead.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

from prefect.server.api.server import create_app
from prefect.server.database.configurations import AioSqliteConfiguration

__all__ = ["create_app"]

_as_prefect_begins = AioSqliteConfiguration.begin_transaction


def _begin_in_turn(
    self: AioSqliteConfiguration, session: Any, with_for_update: bool = False
) -> AbstractAsyncContextManager[Any]:
    return _as_prefect_begins(self, session, with_for_update=True)


AioSqliteConfiguration.begin_transaction = _begin_in_turn  # type: ignore[method-assign]
