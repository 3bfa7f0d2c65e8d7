"""How a cluster's workers come by the sampling key: from the release's own process, each directly, for a while."""

from __future__ import annotations

import asyncio
import resource
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from distributed import WorkerPlugin, get_worker
from distributed.comm import CommClosedError
from distributed.protocol import to_serialize

from ...accounting.kernel.keys.private_store import KeyRef
from ...mechanisms.kernel.errors import ReleaseFailed

LEASE_SECONDS = 60.0
RENEWED_EVERY_SECONDS = 10.0
LOOKED_EVERY_SECONDS = 0.5
WAITED_FOR_SECONDS = 30.0
ANSWERED_WITHIN_SECONDS = 10.0
GONE = (OSError, CommClosedError, TimeoutError, asyncio.TimeoutError)


class HeldKey(WorkerPlugin):  # type: ignore[misc]
    """The sampling key in a worker's memory: no part of the worker's data, so it is neither spilled nor passed on.

    PRIVACY: it travels in one message from the release's process to the worker. The scheduler never sees it, its
    text shows nothing, and it is dropped when the release ends or, where that can't be told, when its lease does.

    Args:
        secret: the key.
        lease_seconds: how long it is kept unless it comes again.
    """

    def __init__(self, secret: bytes, *, lease_seconds: float) -> None:
        self._secret: bytearray | None = bytearray(secret)
        self._lease_seconds = lease_seconds
        self._end: Any = None

    def __repr__(self) -> str:
        """Nothing of the key."""
        return "HeldKey(redacted)"

    def setup(self, worker: Any) -> None:  # noqa: ANN401 - Dask's own
        """Begin the lease; from now on this process leaves no core dump."""
        # PRIVACY: a core dump would write the key to a disk.
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
        self._end = worker.loop.asyncio_loop.call_later(self._lease_seconds, self.drop)

    def teardown(self, worker: Any) -> None:  # noqa: ANN401
        """Drop the key."""
        del worker
        if self._end is not None:
            self._end.cancel()
        self.drop()

    def drop(self) -> None:
        """Overwrite the key and forget it."""
        secret, self._secret = self._secret, None
        if secret is not None:
            # Overwritten in place, which only a bytearray allows; immutable bytes would wait for the garbage collector.
            secret[:] = bytes(len(secret))

    def secret(self) -> bytes | None:
        """Return the key, None once it was dropped."""
        held = self._secret
        return None if held is None else bytes(held)


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerKey:
    """Where a task on a worker finds the key; this travels through the graph and has none of it.

    Args:
        name: under which the worker holds the key, unique to one computation.
    """

    name: str

    def load(self) -> bytes:
        """Return the key that this worker was given; one that has just joined the cluster waits for it.

        Raises:
            ReleaseFailed: none came.
        """
        worker = get_worker()
        deadline = time.monotonic() + WAITED_FOR_SECONDS
        # A worker that has just joined may be given a task before the key has reached it.
        while time.monotonic() < deadline:
            held = worker.plugins.get(self.name)
            secret = held.secret() if isinstance(held, HeldKey) else None
            if secret is not None:
                return secret
            time.sleep(0.05)
        raise ReleaseFailed(
            "a worker was not given the sampling key.",
            remedy="The release's process must be able to connect to every worker. Run again with the same release id.",
        )


@contextmanager
def delivered_key(client: Any, key: KeyRef) -> Iterator[WorkerKey]:  # noqa: ANN401
    """Give the key to every worker, also to those that join later, until the block ends; then have them drop it.

    Raises:
        ReleaseFailed: the key is gone or damaged.
    """
    source = WorkerKey(name=f"crowdblend-{uuid.uuid4().hex}")
    delivery = _Delivery(client=client, name=source.name, secret=key.load())
    running = asyncio.run_coroutine_threadsafe(delivery.keep_supplied(), client.loop.asyncio_loop)
    try:
        yield source
    finally:
        running.cancel()
        if client.status in ("running", "connecting"):  # else nobody can be told, and the leases end by themselves
            with suppress(*GONE):
                client.sync(delivery.withdraw)


class _Delivery:
    """The supply of one key, on the client's own event loop."""

    def __init__(self, *, client: Any, name: str, secret: bytes) -> None:  # noqa: ANN401
        self._client = client
        self._name = name
        self._secret = secret
        self._due: dict[str, float] = {}

    def __repr__(self) -> str:
        return f"_Delivery(name={self._name!r})"

    async def keep_supplied(self) -> None:
        """Look for workers whose lease is due or that have none, for ever."""
        while True:
            with suppress(*GONE):
                known = await self._client.scheduler.identity(n_workers=-1)
                addresses = list(known["workers"])
                due = [address for address in addresses if self._due.get(address, 0.0) <= time.monotonic()]
                await asyncio.gather(*(self._give(address) for address in due))
            await asyncio.sleep(LOOKED_EVERY_SECONDS)

    async def _give(self, address: str) -> None:
        held = HeldKey(self._secret, lease_seconds=LEASE_SECONDS)
        with suppress(*GONE):
            answer = await self._ask(address, "plugin-add", plugin=to_serialize(held), name=self._name)
            if answer["status"] == "OK":
                # Renewed well before the lease ends, so that one lost message takes the key from nobody.
                self._due[address] = time.monotonic() + RENEWED_EVERY_SECONDS

    async def withdraw(self) -> None:
        """Have every worker drop the key."""
        self._secret = b""
        await asyncio.gather(*(self._take(address) for address in self._due))

    async def _take(self, address: str) -> None:
        with suppress(*GONE):
            await self._ask(address, "plugin-remove", name=self._name)

    async def _ask(self, address: str, operation: str, **message: object) -> Any:  # noqa: ANN401
        """Send one message straight to a worker, and return its answer."""
        asked = getattr(self._client.rpc(address), operation)(**message)
        return await asyncio.wait_for(asked, ANSWERED_WITHIN_SECONDS)
