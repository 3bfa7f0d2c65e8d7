"""The flow of a microdata release: charge, choose the map, sample, recode, count, suppress, publish, close."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Protocol, assert_never

from prefect import flow

from ..mechanisms.map_choice import MapChoice
from ..mechanisms.recoding import GeneralizationMap
from ..mechanisms.refusal import ReleaseFailed
from ..tasks.charge import begin_reading, close, reserve
from ..tasks.executors import Executor
from ..tasks.released import publish, write_output
from ..tasks.sampled_counts import surviving_groups
from ..tasks.select import drawn_map
from ..tasks.source import SourceLayout, manifest_bytes
from ..tasks.staging import SettledRelease, remembered_release
from .prepare import PreparedRelease

__all__ = ["Observer", "run_flow"]


class Observer(Protocol):
    """Who is told which stage runs and how far it is: the steward's terminal, nobody else."""

    def stage(self, name: str) -> AbstractContextManager[None]:
        """A stage, from its beginning to its end."""
        ...

    def advanced(self, done: int, total: int) -> None:
        """So much of the running stage is done."""
        ...


def run_flow(
    prepared: PreparedRelease,
    *,
    executor: Executor,
    randomness: Callable[[int], bytes],
    observer: Observer,
) -> SettledRelease:
    """Run a prepared release as a Prefect flow.

    PRIVACY: the flow is made around the release and has no parameters, so Prefect has none to record.

    Args:
        prepared: what `prepare.prepared_release` gave, still locked.
        executor: where the counting is done.
        randomness: source of the sampling keys, n to n bytes.
        observer: told of the stages.

    Raises:
        AccountantRefused: the charge was refused; nothing was read.
        ReleaseFailed: the work failed after the charge.
    """
    layout = prepared.layout
    if layout is None:
        raise ReleaseFailed("a release that is published already is not run again.")
    published: list[SettledRelease] = []

    @flow(
        name="microdata-release",
        flow_run_name=prepared.release_id,
        persist_result=False,
        log_prints=False,
        validate_parameters=False,
    )
    def microdata_release() -> None:
        """Charge, count, publish and close one release."""
        published.append(_stages(prepared, layout, executor=executor, randomness=randomness, observer=observer))

    microdata_release()
    return published[0]


def _stages(
    prepared: PreparedRelease,
    layout: SourceLayout,
    *,
    executor: Executor,
    randomness: Callable[[int], bytes],
    observer: Observer,
) -> SettledRelease:
    """The stages in their order; each skips what an earlier attempt has made durable."""
    request, folder = prepared.request, prepared.folder
    ledger_url, anchoring = prepared.house.ledger_url, prepared.house.anchoring
    with observer.stage("charge"):
        receipt, charge, circumstances = reserve(
            ledger_url=ledger_url,
            anchoring=anchoring,
            request=request,
            release_id=prepared.release_id,
            folder=folder,
            state=prepared.state,
            series=prepared.series,
            inputs=manifest_bytes(layout.source),
            code_version=version("crowdblend"),
            today=datetime.now(UTC).date(),
            randomness=randomness,
        )
        release = remembered_release(folder) if prepared.state is not None else None
        if release is None:
            begin_reading(ledger_url=ledger_url, anchoring=anchoring, receipt=receipt)
    if release is None:
        match request.recoding:
            case GeneralizationMap() as generalization:
                pass
            case MapChoice() as choice:
                with observer.stage("select"):
                    generalization = drawn_map(
                        receipt=receipt,
                        request=request,
                        choice=choice,
                        layout=layout,
                        folder=folder,
                        executor=executor,
                        advanced=observer.advanced,
                    )
            case _:
                assert_never(request.recoding)
        with observer.stage("count"):
            surviving = surviving_groups(
                receipt=receipt,
                request=request,
                generalization=generalization,
                layout=layout,
                key=folder.key,
                executor=executor,
                advanced=observer.advanced,
            )
        with observer.stage("publish"):
            release = write_output(
                receipt=receipt,
                charge=charge,
                circumstances=circumstances,
                request=request,
                generalization=generalization,
                surviving=surviving,
                folder=folder,
                signing=anchoring.keys,
            )
    with observer.stage("publish"):
        publish(release=release)
    with observer.stage("close"):
        close(ledger_url=ledger_url, anchoring=anchoring, receipt=receipt, folder=folder, hashes=release.staged.hashes)
    return release
