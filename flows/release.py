"""The flow of a release of any kind: charge, make what is published, bring it into view, close."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import prefect.task_engine  # noqa: F401 - Prefect loads it with the first task, which would be inside the charge
from prefect import flow

from .. import accounting, mechanisms, tasks
from ..accounting.kernel.keys.private_store import ReleaseFolder
from ..mechanisms.kernel.errors import InputRefused, ReleaseFailed
from ..mechanisms.recoding import GeneralizationMap
from ..tasks.counting.executors import DaskCluster, Executor
from ..tasks.inputs.list import SourceLayout, delivery_bytes, layout_for_other_machines, manifest_bytes
from ..tasks.kernel.draws import noise_draw
from ..tasks.kernel.protected import Protected
from ..tasks.kernel.publication import StagedRelease, remembered_release
from ..tasks.request import Request, output_named
from ..tasks.stages.charge import LedgerWriter, begin_reading, close, open_writer, reserve
from ..tasks.stages.count import ReleaseWork, count_stage
from ..tasks.stages.publish import publish, write_output
from .prepare import PreparedRelease, layout_of_copy
from .releases.kind import Observer, drawn_levels, release_kind

__all__ = ["ROOMS", "code_sources", "digest_of_sources", "run_flow"]


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
        prepared: what `prepare.prepare` gave, still locked.
        executor: where the counting is done.
        randomness: source of the sampling keys, n to n bytes.
        observer: shows the stages.

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

        require_files_seen(executor.client, layout_for_other_machines(layout).source.files)
    published: list[StagedRelease] = []

    @flow(
        name="release",
        flow_run_name=prepared.release_id,
        persist_result=False,
        log_prints=False,
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
    """The stages in their order; each skips what an earlier attempt has made durable."""
    request = prepared.request
    sources = code_sources()  # before the charge: where they can't be read nothing is spent
    paper = request.paper_price
    with observer.stage("charge"):
        receipt, charge, context = reserve(
            writer=writer,
            reader=prepared.reader,
            request=request,
            release_id=prepared.release_id,
            folder=folder,
            state=prepared.state,
            series=prepared.series,
            epsilon_paper=None if paper is None else paper.epsilon,
            inputs=manifest_bytes(layout.source),
            table_version=layout.source.version,
            delivery=delivery_bytes(layout.source),
            code_version=version("crowdblend"),
            software=software_digest(),
            today=datetime.now(UTC).date(),
            randomness=randomness,
        )
        release = remembered_release(folder, place_of=output_named) if prepared.state is not None else None
        if release is None:
            begin_reading(writer=writer, receipt=receipt)
            if request.query is not None:
                from ..tasks.inputs.database import copied_records  # of databases alone

                layout = layout_of_copy(request, copied_records(request=request, receipt=receipt, folder=folder))
    if release is None:
        work = ReleaseWork(
            receipt=receipt,
            layout=layout_for_other_machines(layout) if isinstance(executor, DaskCluster) else layout,
            folder=folder,
            executor=executor,
            randomness=randomness,
            on_progress=observer.on_progress,
        )
        generalization, protected = _run_count(request, work=work, observer=observer)
        with observer.stage("publish"):
            release = write_output(
                protected=protected,
                receipt=receipt,
                charge=charge,
                context=context,
                request=request,
                generalization=generalization,
                finish=partial(release_kind(request.kind).finish, request, generalization),
                folder=folder,
                code_sources=sources,
                signing=prepared.state_paths.anchoring.keys,
            )
    with observer.stage("publish"):
        publish(release=release)
    with observer.stage("close"):
        close(writer=writer, receipt=receipt, folder=folder, hashes=release.staged.hashes)
    return release


def _run_count(request: Request, *, work: ReleaseWork, observer: Observer) -> tuple[GeneralizationMap, Protected]:
    """The map that the records were read with, and what may be published."""
    kind = release_kind(request.kind)
    generalization = kind.count_columns(request, work, observer)
    protection, draw = kind.protection(request, drawn_levels(request, work)), None
    if protection.drawn:
        draw = noise_draw(request, fits=protection.fits, sample_id=work.receipt.sample_id)
    with observer.stage("count"):
        return generalization, count_stage(
            work=work,
            count=partial(kind.count, request, work, generalization),
            protection=protection,
            draw=draw,
        )


ROOMS: Mapping[str, Path] = {
    "accounting": Path(str(accounting.__file__)).parent,
    "flows": Path(__file__).parent,
    "mechanisms": Path(str(mechanisms.__file__)).parent,
    "tasks": Path(str(tasks.__file__)).parent,
}
"""The rooms that decide what a release is and what it costs, and where they lie."""


@cache
def code_sources() -> str:
    """The digest of all of them.

    PRIVACY: a function of the installed software alone.
    """
    return digest_of_sources(ROOMS)


LIBRARIES = ("dask", "numpy", "opendp", "pyarrow", "scipy")
"""Libraries that decide how records are read, drawn, counted and written."""


def software_digest() -> str:
    """The digest of all that a resumed release depends on: the sources, these libraries' versions and Python's.

    PRIVACY: a release that goes on with another sampler, or other noise, would mix two draws. Two installations of one
    version's name may differ in each.
    """
    versions = ",".join(f"{name} {_version_of(name)}" for name in LIBRARIES)
    python = ".".join(map(str, sys.version_info[:2]))
    return hashlib.sha256(f"{code_sources()}\n{versions}\npython {python}\n".encode()).hexdigest()


def _version_of(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "-"


def digest_of_sources(rooms: Mapping[str, Path]) -> str:
    """SHA-256 (hex) over names and contents of the Python files of some rooms, by room and path.

    Args:
        rooms: name and folder of each.
    """
    whole = hashlib.sha256()
    for room, root in sorted(rooms.items()):
        files = {path.relative_to(root).as_posix(): path for path in root.rglob("*.py")}
        for name in sorted(files):
            content = hashlib.sha256(files[name].read_bytes()).hexdigest()
            whole.update(f"{room}/{name}\0{content}\n".encode())
    return whole.hexdigest()
