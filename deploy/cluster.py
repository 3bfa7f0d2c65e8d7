"""Where the counting of a release runs: this machine's threads, a cluster that exists, or one started for it."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dask.config

from ..flows.paths import resolved_settings
from ..flows.spec_tables import CLASSES, ExistingCluster, StartedCluster
from ..mechanisms.errors import InputRefused
from ..tasks.counting.executors import DaskCluster, Executor, LocalThreads

__all__ = ["Choice", "chosen_cluster", "opened_executor", "require_reachable"]

Choice = ExistingCluster | StartedCluster | None
ANSWERED_WITHIN_SECONDS = 5
CONNECTED_WITHIN_SECONDS = 10
CANT_CONNECT = (OSError, ValueError, TypeError, RuntimeError)


def chosen_cluster(*, scheduler: str | None, of_spec: Choice) -> Choice:
    """The cluster: the command's, else the specification's, else Dask's own setting, else crowdblend.toml's, else none.

    Args:
        scheduler: address given on the command line.
        of_spec: the specification's [cluster].
    """
    if scheduler is not None:
        return ExistingCluster(address=scheduler)
    if of_spec is not None:
        return of_spec
    address = dask.config.get("scheduler-address", None)  # DASK_SCHEDULER_ADDRESS, or Dask's files
    address = address or resolved_settings()["scheduler"].value
    return None if address is None else ExistingCluster(address=str(address))


def require_reachable(choice: Choice) -> None:
    """See that a scheduler that exists answers and trusts this process; the first thing to do with a cluster.

    It comes before a `Client` tries at length and noisily, and before a Prefect server is started in vain.

    Args:
        choice: as `chosen_cluster`; anything but an existing cluster passes.

    Raises:
        InputRefused: it can't be reached.
    """
    if not isinstance(choice, ExistingCluster):
        return
    from distributed.core import connect
    from distributed.security import Security

    address = _address(choice)

    async def answered() -> None:
        talk = await connect(address, timeout=ANSWERED_WITHIN_SECONDS, **Security().get_connection_args("client"))
        await talk.close()

    try:
        asyncio.run(answered())
    except Exception as error:  # noqa: BLE001 - whatever answers there may not be a scheduler: its bytes can be anything
        raise _unreachable(address, error) from None


@contextmanager
def opened_executor(choice: Choice, *, tell: Callable[[str], None]) -> Iterator[Executor]:
    """Connect to the cluster, or start it, and see that all its machines run this version.

    PRIVACY: this comes before the charge, so a cluster that can't be used costs nothing.

    Args:
        choice: as `chosen_cluster`, seen to be reachable.
        tell: says to the steward that the work has no workers.

    Raises:
        InputRefused: it can't be started or reached, its workers don't come, or one runs another version.
    """
    match choice:
        case None:
            yield LocalThreads()
        case ExistingCluster():
            address = _address(choice)
            with _connected(address, choice, shown=address, tell=tell) as executor:
                yield executor
        case StartedCluster():
            with _started(choice) as cluster, _connected(cluster, choice, shown=choice.cls, tell=tell) as executor:
                yield executor


@contextmanager
def _connected(
    where: object, choice: ExistingCluster | StartedCluster, *, shown: str, tell: Callable[[str], None]
) -> Iterator[Executor]:
    from distributed import Client

    from ..tasks.counting.workers import require_same_everywhere

    try:
        client = Client(where, set_as_default=False, timeout=CONNECTED_WITHIN_SECONDS)
    except CANT_CONNECT as error:
        raise _unreachable(shown, error) from None
    with client:
        try:
            client.wait_for_workers(choice.workers, timeout=choice.wait_seconds)
        except TimeoutError:
            raise InputRefused(
                f"fewer than {choice.workers} workers joined within {choice.wait_seconds} seconds.",
                where=shown,
                remedy="Start workers, or change workers and wait_seconds in [cluster].",
            ) from None
        require_same_everywhere(client)
        yield DaskCluster(client=client, tell=tell)


def _address(choice: ExistingCluster) -> str:
    if choice.scheduler_file is None:
        return str(choice.address)
    try:
        return str(json.loads(choice.scheduler_file.read_text(encoding="utf-8"))["address"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputRefused(
            f"the scheduler file can't be read ({type(error).__name__}).", where=str(choice.scheduler_file)
        ) from None


def _unreachable(where: str, error: Exception) -> InputRefused:
    kind = type(error).__name__ if isinstance(error, CANT_CONNECT) else "what answers there is no scheduler of Dask's"
    return InputRefused(
        f"the scheduler can't be reached ({kind}).",
        where=where,
        remedy="Check that it runs, its address, and Dask's TLS settings (distributed.comm.tls).",
        cause="scheduler-unreachable",
    )


@contextmanager
def _started(choice: StartedCluster) -> Iterator[Any]:
    module, _, name = choice.cls.rpartition(".")
    try:
        kind = getattr(importlib.import_module(module), name)
    except ImportError:
        raise InputRefused(
            f"{choice.cls} is not installed.",
            where="[cluster].class",
            remedy=f"Install {CLASSES[choice.cls]}.",
        ) from None
    settings = {"dashboard_address": "127.0.0.1:0"} if choice.cls == "distributed.LocalCluster" else {}
    try:
        cluster = kind(**(settings | choice.kwargs))
    except Exception as error:  # noqa: BLE001 - other people's code: whatever it raises, nothing was charged yet
        raise InputRefused(
            f"{choice.cls} can't be started ({type(error).__name__}: {error}).", where="[cluster].kwargs"
        ) from None
    with cluster:
        if choice.adapt is not None:
            cluster.adapt(**choice.adapt)
        elif choice.scale is not None:
            cluster.scale(choice.scale)
        yield cluster
