"""The flow of a release of any kind: charge, make what is published, bring it into view, close."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version

import prefect.task_engine  # noqa: F401 - Prefect loads it with the first task, which would be inside the charge
from prefect import flow

from ..accounting.descriptions.description_registry import description_of
from ..accounting.kernel.keys.private_store import ReleaseFolder
from ..mechanisms.kernel.errors import InputRefused, ReleaseFailed
from ..tasks.counting.executors import DaskCluster, Executor
from ..tasks.destinations import output_named
from ..tasks.inputs.source import SourceLayout, delivery_bytes, layout_for_other_machines, manifest_bytes
from ..tasks.kernel.gate import Gate, Plan
from ..tasks.kernel.publication import StagedRelease
from ..tasks.stages.charge import LedgerWriter, begin_reading, charge_of, close, open_writer, reserve
from ..tasks.stages.count import ReleaseWork, count_stage
from ..tasks.stages.publish import publish, write_output
from ..tasks.stages.table import Publication  # noqa: F401 - what every kind finishes with, loaded before the charge
from .prepare import PreparedRelease, layout_of_copy
from .releases.release_kind import Observer, chosen_map, drawn_levels, release_kind
from .software import kernel_digest, software_digest


def run_flow(
    prepared: PreparedRelease,
    *,
    executor: Executor,
    randomness: Callable[[int], bytes],
    observer: Observer,
) -> StagedRelease:
    """Run a prepared release as a Prefect flow.

    PRIVACY: the flow is made around the release and has no parameters, so Prefect has none to record.

    Args:
        randomness: source of the sampling keys, n to n bytes.

    Raises:
        InputRefused: a cluster's workers would have to read a database's records, or don't see the files that were
            listed; nothing was charged.
        AccountantRefused: the charge was refused; nothing was read.
        ReleaseFailed: the work failed after the charge.
    """
    layout = prepared.layout
    if layout is None:
        raise ReleaseFailed("a release that is published already is not run again.")
    folder = prepared.folder  # which a dry run hasn't
    if prepared.request.query is not None and isinstance(executor, DaskCluster):
        raise InputRefused(
            "a database's records are copied onto this machine, where no cluster's workers read them.",
            where=layout.source.files[0].path,
            remedy="Run it without a scheduler.",
        )
    if isinstance(executor, DaskCluster):
        from ..tasks.counting.workers import require_files_seen  # of clusters alone

        # Before the charge: a worker without the files would fail the release after it was paid for.
        require_files_seen(executor.client, layout_for_other_machines(layout).source.files)
    published: list[StagedRelease] = []

    @flow(
        name="release",
        flow_run_name=prepared.release_id,
        persist_result=False,
        log_prints=False,
        retries=0,  # whatever Prefect's settings say: a second attempt within this process would refuse its own charge
        validate_parameters=False,
    )
    def release() -> None:
        """Charge, count, publish and close one release."""
        published.append(
            _stages(prepared, layout, folder, writer, executor=executor, randomness=randomness, observer=observer)
        )

    # PRIVACY: outside of the flow, since Prefect records the texts of what is raised in it.
    with open_writer(prepared.state_paths.ledger_url, anchoring=prepared.state_paths.anchoring) as writer:
        release()
    return published[0]


def _stages(
    prepared: PreparedRelease,
    layout: SourceLayout,
    folder: ReleaseFolder,
    writer: LedgerWriter,
    *,
    executor: Executor,
    randomness: Callable[[int], bytes],
    observer: Observer,
) -> StagedRelease:
    """Return the stages in their order; each skips what an earlier attempt has made durable."""
    request = prepared.request
    sources = kernel_digest(request.mechanism)  # before the charge: where they can't be read nothing is spent
    description_of(request.mechanism)  # loads the words of the certificate, for the same reason
    gate = Gate(
        _plan(prepared, layout, folder), ledger=writer, folder=folder, randomness=randomness, place_of=output_named
    )
    with observer.stage("charge"):
        context = reserve(
            gate=gate, writer=writer, reader=prepared.reader, state=prepared.state, today=datetime.now(UTC).date()
        )
        # Bytes that were written before a crash are published as they are. Nothing is drawn, counted or rounded again,
        # since a second attempt could give another result for the same charge.
        release = gate.remembered() if prepared.state is not None else None
        if release is None:
            # In the ledger before a record is read: from here on the charge can't be given back, whatever happens.
            begin_reading(gate=gate)
            if request.query is not None:
                from ..tasks.stages.count import copied_records  # of databases alone

                copied = copied_records(request=request, receipt=gate.receipt, folder=folder)
                layout = layout_of_copy(request, copied)
    if release is None:
        work = ReleaseWork(
            gate=gate,
            layout=layout_for_other_machines(layout) if isinstance(executor, DaskCluster) else layout,
            folder=folder,
            executor=executor,
            on_progress=observer.on_progress,
        )
        kind = release_kind(request.kind)
        generalization = chosen_map(request, work, observer)
        with observer.stage("count"):
            count_stage(
                work=work,
                count=partial(kind.count, request, work, generalization),
                protection=kind.protection(request, drawn_levels(request, work)),
            )
        with observer.stage("publish"):
            release = write_output(
                gate=gate,
                context=context,
                request=request,
                generalization=generalization,
                finish=partial(kind.finish, request, generalization),
                code_sources=sources,
                signing=prepared.state_paths.anchoring.keys,
            )
    with observer.stage("publish"):
        publish(gate=gate)
    with observer.stage("close"):
        close(gate=gate)
    return release


def _plan(prepared: PreparedRelease, layout: SourceLayout, folder: ReleaseFolder) -> Plan:
    """Return what is fixed of a release before it is charged."""
    request, paper = prepared.request, prepared.request.paper_price
    delivery = delivery_bytes(layout.source)
    return Plan(
        entry=charge_of(
            request,
            release_id=prepared.release_id,
            series=prepared.series,
            epsilon_paper=None if paper is None else paper.epsilon,
            code_version=version("crowdblend"),
            day=datetime.now(UTC).date(),
        ),
        rows_per_person=request.price.rows_per_person,
        unit=request.unit,
        part=request.part,
        digest=request.digest,
        inputs=manifest_bytes(layout.source),
        output=request.output,
        software=software_digest(reader=type(layout.source.file_format).__module__),
        facts={
            "delivery": None if delivery is None else folder.fingerprint(delivery),
            "source_day": None if request.source_day is None else request.source_day.isoformat(),
            "table_version": layout.source.version,
            "copy": None,
        },
    )
