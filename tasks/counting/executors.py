"""Where the counting runs: threads or processes of this machine, or a Dask cluster."""

from __future__ import annotations

import asyncio
import math
import os
import time
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, assert_never

import dask.threaded
from dask.callbacks import Callback
from dask.system import CPU_COUNT

from ...mechanisms.kernel.errors import ReleaseFailed
from .memory import room_bytes

if TYPE_CHECKING:
    import dask.dataframe as dd
    import pandas as pd

SPLIT_EVERY = 8
"""Branches of a tree of sums."""
OnProgress = Callable[[int, int], None]
"""Told how many tasks are done, and of how many."""

_POLL_SECONDS = 0.5
_FETCHES = 20
_TOLD_AFTER_SECONDS = (3, 15, 60)
"""Without a worker: when this is reported first and again; the last is also the time between all later ones."""
_IN_TOUCH = ("running", "connecting")


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalThreads:
    """Threads of this process; the readers release the interpreter's lock, and `distributed` is not imported.

    Args:
        workers: number of threads; None is one for each processor.
    """

    workers: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalProcesses:
    """Processes of this machine.

    Args:
        workers: number of processes; None is one for each processor.
    """

    workers: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DaskCluster:
    """A Dask cluster.

    Args:
        client: a connected `distributed.Client`, made with `set_as_default=False`.
        tell: says to the steward that no worker is left, and for how long; None where nobody is there.
    """

    client: Any
    tell: Callable[[str], None] | None = None

    @property
    def shown(self) -> str:
        """Return the scheduler's address."""
        return str(self.client.scheduler.address)


Executor = LocalThreads | LocalProcesses | DaskCluster


def tasks_at_once(executor: Executor) -> int:
    """Return how many tasks run at once, at least 1; of a cluster, as many as its present workers have threads."""
    match executor:
        case LocalThreads(workers=workers) | LocalProcesses(workers=workers):
            return workers or os.cpu_count() or 1
        case DaskCluster(client=client):
            threads: dict[str, int] = client.nthreads()
            return max(1, sum(threads.values()))
        case _:
            assert_never(executor)


def task_room(executor: Executor) -> float:
    """Return bytes of memory that each of the tasks that run at once may take.

    On this machine that is its share of CROWDBLEND_MEMORY; of a cluster, half of what its smallest worker may take.
    """
    if isinstance(executor, DaskCluster):
        workers = executor.client.scheduler_info(n_workers=-1)["workers"].values()
        limits = (one["memory_limit"] / max(1, one["nthreads"]) for one in workers if one.get("memory_limit"))
        return min(limits, default=math.inf) / 2
    return room_bytes() / (executor.workers or os.cpu_count() or 1)


def frame_of_tasks(
    function: Callable[..., pd.DataFrame],
    items: Sequence[Any],
    *,
    meta: pd.DataFrame,
    label: str,
    **given: Any,  # noqa: ANN401 - arguments of the function
) -> dd.DataFrame:
    """Return a lazy Dask dataframe with a partition for each item, of the form of `meta`."""
    import dask
    import dask.dataframe as dd  # its import takes longer than counting ten million records

    with dask.config.set({"dataframe.convert-string": False}):
        return dd.from_map(function, list(items), meta=meta, label=label, enforce_metadata=False, **given)


def merged_frame(
    frame: dd.DataFrame, by: Callable[[pd.DataFrame], pd.DataFrame], *, split_every: int = SPLIT_EVERY
) -> dd.DataFrame:
    """Return one partition, in which those of a frame were put together in a tree, and merged at each branch."""
    return frame.reduction(chunk=unchanged, combine=by, aggregate=by, meta=frame._meta, split_every=split_every)


def unchanged(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame as it is."""
    return frame


def computed(frame: dd.DataFrame, *, executor: Executor, on_progress: OnProgress | None) -> pd.DataFrame:
    """Compute a small Dask dataframe.

    Raises:
        ReleaseFailed: a task said so, or its workers were lost.
    """
    with _refusals_alone():
        match executor:
            case LocalThreads():
                with _threads_of(executor) as pool:
                    return _locally(frame, dask.threaded.get, on_progress, pool=pool)
            case LocalProcesses(workers=workers):
                from dask.multiprocessing import get

                return _locally(frame, get, on_progress, num_workers=workers)
            case DaskCluster():
                return _on_cluster(frame, executor, on_progress)
            case _:
                assert_never(executor)


def computed_on_threads(
    graph: Mapping[Any, Any],
    last: Any,  # noqa: ANN401 - a key of Dask's
    *,
    executor: LocalThreads,
    on_progress: OnProgress | None,
) -> Any:  # noqa: ANN401 - whatever the graph's functions give
    """Compute one key of a Dask graph on this process's threads.

    Raises:
        ReleaseFailed: a task said so.
    """
    with (
        _refusals_alone(),
        nullcontext() if on_progress is None else _Progress(on_progress),
        _threads_of(executor) as pool,
    ):
        return dask.threaded.get(graph, last, pool=pool)


@contextmanager
def _threads_of(executor: LocalThreads) -> Iterator[ThreadPoolExecutor]:
    """Give a pool of threads that end when it is left.

    A thread whose start is interrupted stays unknown to its pool. Dask's own pool is closed after Python has waited for
    all threads, so the process would wait for that one without end.
    """
    pool = ThreadPoolExecutor(executor.workers or CPU_COUNT)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False)  # an interruption is told before running tasks have ended


@contextmanager
def _refusals_alone() -> Iterator[None]:
    """A process may have sent a refusal with its traceback attached; only the refusal itself goes on."""
    try:
        yield
    except ReleaseFailed as failure:
        raise ReleaseFailed(
            failure.what, where=failure.where, not_done=failure.not_done, remedy=failure.remedy
        ) from None
    except BrokenExecutor:
        raise _lost_workers() from None


def _locally(
    frame: dd.DataFrame,
    get: Callable[..., Any],
    on_progress: OnProgress | None,
    **workers: Any,  # noqa: ANN401 - Dask's own
) -> pd.DataFrame:
    with nullcontext() if on_progress is None else _Progress(on_progress):
        return frame.compute(scheduler=get, **workers)


class _Progress(Callback):  # type: ignore[misc]
    """Counts the tasks of a local computation."""

    def __init__(self, on_progress: OnProgress) -> None:
        super().__init__()
        self._on_progress = on_progress
        self._done = 0
        self._total = 0

    def _start_state(self, dsk: Any, state: Any) -> None:  # noqa: ANN401 - Dask's own
        del dsk
        self._total = len(state["ready"]) + len(state["waiting"])
        self._on_progress(0, self._total)

    def _posttask(self, key: Any, result: Any, dsk: Any, state: Any, worker_id: Any) -> None:  # noqa: ANN401
        del key, result, dsk, state, worker_id
        self._done += 1
        self._on_progress(self._done, self._total)


def _on_cluster(frame: dd.DataFrame, executor: DaskCluster, on_progress: OnProgress | None) -> pd.DataFrame:
    """Compute on a cluster and fetch the result from the worker that has it.

    PRIVACY: the counts have the groups below the threshold, so they don't pass through the scheduler; Dask's own way
    of gathering would fall back on it.
    """
    from distributed import KilledWorker
    from distributed.client import FutureCancelledError
    from distributed.comm import CommClosedError

    client = executor.client
    planned = frame.optimize()
    names = sorted({key[0] for key in planned.__dask_graph__()})
    # Optimized once, above: a second optimization would give the tasks other names than those whose progress is
    # followed.
    [part] = client.compute(planned.to_delayed(optimize_graph=False))
    try:
        _follow(part, executor, names, on_progress)
        return client.sync(_fetched, client, part)
    except (KilledWorker, CommClosedError, FutureCancelledError, CancelledError, TimeoutError, OSError):
        raise _lost_workers() from None
    finally:
        part.release()


async def _fetched(client: Any, part: Any) -> pd.DataFrame:  # noqa: ANN401
    from distributed.utils_comm import gather_from_workers

    for _ in range(_FETCHES):
        failure = await part._exception()
        if failure is not None:
            raise failure
        holders = await client.scheduler.who_has(keys=[part.key])
        # A worker that has the result may die between the question and the fetch; Dask then computes it again
        # elsewhere, and the question is repeated.
        found, _missing, _failed, _gone = await gather_from_workers(holders, rpc=client.rpc)
        if part.key in found:
            result: pd.DataFrame = found[part.key]
            return result
        await asyncio.sleep(_POLL_SECONDS)
    raise _lost_workers()


def _follow(future: Any, executor: DaskCluster, names: list[str], on_progress: OnProgress | None) -> None:  # noqa: ANN401
    client, total = executor.client, 0
    absence = _WorkersAbsence(where=executor.shown, tell=executor.tell)
    while not future.done():
        if client.status not in _IN_TOUCH:
            raise _lost_workers()
        # Asked for numbers alone. Dask's own progress bars subscribe to the tasks themselves.
        done, total, workers = client.run_on_scheduler(_tasks_done, names=names)
        absence.seen(workers, at=time.monotonic())
        if on_progress is not None:
            on_progress(done, total)
        with suppress(TimeoutError):
            future.exception(timeout=_POLL_SECONDS)  # waits, and fetches no result
    if on_progress is not None:
        on_progress(total, total)


class _WorkersAbsence:
    """Tells that a computation has no worker left, how long it has waited, and that one is back."""

    def __init__(self, *, where: str, tell: Callable[[str], None] | None) -> None:
        self._where, self._tell = where, tell
        self._since: float | None = None
        self._reported = 0

    def seen(self, workers: int, *, at: float) -> None:
        """So many workers are there, at a time in seconds."""
        if self._tell is None:
            return
        if workers:
            if self._reported:
                self._tell("a worker is there again; the work goes on")
            self._since, self._reported = None, 0
            return
        self._since = at if self._since is None else self._since
        waited = at - self._since
        # Soon at first, then once a minute: a log of a weekend without workers stays readable.
        due = sum(waited >= seconds for seconds in _TOLD_AFTER_SECONDS[:-1]) + int(waited // _TOLD_AFTER_SECONDS[-1])
        if due > self._reported:
            self._reported = due
            self._tell(
                f"no worker is left at {self._where}; waiting for {waited:.0f} s. Start workers and the release goes "
                "on; if it is broken off instead, it can be finished later by its release id"
            )


def _tasks_done(dask_scheduler: Any, names: list[str]) -> tuple[int, int, int]:  # noqa: ANN401
    """Runs on the scheduler: tasks done and tasks in all among those of some names, and how many workers there are."""
    done = total = 0
    for name in names:
        group = dask_scheduler.task_groups.get(name)
        if group is not None:
            total += sum(group.states.values())
            done += sum(group.states[state] for state in ("memory", "released", "forgotten"))
    return done, total, len(dask_scheduler.workers)


def _lost_workers() -> ReleaseFailed:
    return ReleaseFailed(
        "the workers were lost.",
        remedy="Run again with the same release id: it takes the same sample and is not charged twice.",
    )
