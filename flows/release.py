"""The flow of a release of any kind: charge, make what is published, bring it into view, close; and giving one up."""

from __future__ import annotations

import getpass
import hashlib
import shutil
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path

import prefect.task_engine  # noqa: F401 - Prefect loads it with the first task, which would be inside the charge
from prefect import flow

from .. import accounting, mechanisms, tasks
from ..accounting.ledger.private_store.keys import PrivateStore, ReleaseFolder
from ..accounting.ledger.reader import open_reader
from ..mechanisms.errors import AccountantRefused, InputRefused, ReleaseFailed
from ..mechanisms.recoding import GeneralizationMap
from ..tasks.counting.executors import DaskCluster, Executor
from ..tasks.inputs.list import SourceLayout, manifest_bytes
from ..tasks.request import ObjectPrefix, Request, output_at
from ..tasks.stages.charge import begin_reading, close, give_up, reserve
from ..tasks.stages.count import ReleaseWork, count_stage
from ..tasks.stages.draw_once import noise_draw
from ..tasks.stages.publish import StagedRelease, discard, publish, remembered_release, staging_folder, write_output
from ..tasks.stages.table import Publication
from .paths import StatePaths
from .prepare import PreparedRelease, layout_of_copy
from .releases.kind import Observer, release_kind

__all__ = ["ROOMS", "abandon_release", "code_sources", "digest_of_sources", "run_flow"]


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
        prepared: what `prepare.prepared_release` gave, still locked.
        executor: where the counting is done.
        randomness: source of the sampling keys, n to n bytes.
        observer: shows the stages.

    Raises:
        InputRefused: a cluster's workers would have to read a database's records; nothing was charged.
        AccountantRefused: the charge was refused; nothing was read.
        ReleaseFailed: the work failed after the charge.
    """
    layout = prepared.layout
    if layout is None:
        raise ReleaseFailed("a release that is published already is not run again.")
    if prepared.request.query is not None and isinstance(executor, DaskCluster):
        raise InputRefused(
            "a database's records are copied onto this machine, where no cluster's workers read them.",
            where=layout.source.files[0].path,
            remedy="Run it without a scheduler.",
        )
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
        published.append(_stages(prepared, layout, executor=executor, randomness=randomness, observer=observer))

    release()
    return published[0]


def _stages(
    prepared: PreparedRelease,
    layout: SourceLayout,
    *,
    executor: Executor,
    randomness: Callable[[int], bytes],
    observer: Observer,
) -> StagedRelease:
    """The stages in their order; each skips what an earlier attempt has made durable."""
    request, folder = prepared.request, prepared.folder
    ledger_url, anchoring = prepared.state_paths.ledger_url, prepared.state_paths.anchoring
    sources = code_sources()  # before the charge: where they can't be read nothing is spent
    paper = request.paper_price
    with observer.stage("charge"):
        receipt, charge, context = reserve(
            ledger_url=ledger_url,
            anchoring=anchoring,
            request=request,
            release_id=prepared.release_id,
            folder=folder,
            state=prepared.state,
            series=prepared.series,
            epsilon_paper=None if paper is None else paper.epsilon,
            inputs=manifest_bytes(layout.source),
            table_version=layout.source.version,
            code_version=version("crowdblend"),
            today=datetime.now(UTC).date(),
            randomness=randomness,
        )
        release = remembered_release(folder) if prepared.state is not None else None
        if release is None:
            begin_reading(ledger_url=ledger_url, anchoring=anchoring, receipt=receipt)
            if request.query is not None:
                from ..tasks.inputs.database import copied_records  # of databases alone

                layout = layout_of_copy(request, copied_records(request=request, receipt=receipt, folder=folder))
    if release is None:
        work = ReleaseWork(
            receipt=receipt,
            layout=layout,
            folder=folder,
            executor=executor,
            randomness=randomness,
            on_progress=observer.on_progress,
        )
        generalization, publication = _run_count(request, work=work, observer=observer)
        with observer.stage("publish"):
            release = write_output(
                receipt=receipt,
                charge=charge,
                context=context,
                request=request,
                generalization=generalization,
                publication=publication,
                folder=folder,
                code_sources=sources,
                signing=anchoring.keys,
            )
    with observer.stage("publish"):
        publish(release=release)
    with observer.stage("close"):
        close(ledger_url=ledger_url, anchoring=anchoring, receipt=receipt, folder=folder, hashes=release.staged.hashes)
    return release


def _run_count(request: Request, *, work: ReleaseWork, observer: Observer) -> tuple[GeneralizationMap, Publication]:
    """The map that the records were read with, and what may be published."""
    kind = release_kind(request.kind)
    generalization = kind.count_columns(request, work, observer)
    draw = None
    if kind.draws is not None:
        draw = noise_draw(request, fits=partial(kind.draws, request), sample_id=work.receipt.sample_id)
    with observer.stage("count"):
        return generalization, count_stage(
            work=work,
            count=partial(kind.count, request, work, generalization),
            protect=partial(kind.protect, request, work),
            draw=draw,
            finish=partial(kind.finish, request, generalization),
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


def abandon_release(release_id: str, *, reason: str, state_paths: StatePaths) -> bool:
    """Abandon a release that no live process holds, and destroy its key.

    Args:
        release_id: the release.
        reason: why, in one line; recorded for ever.
        state_paths: where the ledger and the private store lie.

    Returns:
        Whether its cost was given back: only where no record was read.

    Raises:
        InputRefused: the ledger has no such release, or there is no signing key.
        AccountantRefused: the ledger is behind its anchor, or the release is held by a live process, published, or
            abandoned already.
    """
    reader = open_reader(state_paths.ledger_url)
    ledger_id = reader.ledger_id
    with PrivateStore(state_paths.home).hold(ledger_id=ledger_id, release_id=release_id) as folder:
        state = reader.release(release_id)
        place = folder.remembered().get("output")
        staging = None
        if state is not None and place is not None:
            staging = staging_folder(
                output_at(place, base=Path("/")), sample_id=state.charge.sample_id, private=folder.path
            )
        if state is not None and state.stage == "abandoned":
            _clear(folder, staging)  # what an attempt to abandon it left undone
        release = remembered_release(folder)
        if state is not None and state.stage == "reading" and release is not None and release.in_view:
            raise AccountantRefused(
                f"the output of release '{release_id}' is in view.",
                where=str(release.output),
                not_done="Nothing was changed.",
                remedy="Run again with the same release id: that closes it.",
            )
        refunded = give_up(
            ledger_url=state_paths.ledger_url,
            anchoring=state_paths.anchoring,
            release_id=release_id,
            reason=reason,
            by=getpass.getuser(),
            today=datetime.now(UTC).date(),
            folder=folder,
        )
        if release is not None and isinstance(release.output, ObjectPrefix):
            discard(release.output, release.staged.hashes)
        _clear(folder, staging)
        return refunded


def _clear(folder: ReleaseFolder, staging: Path | None) -> None:
    """Destroy an abandoned release's keys and draws and remove what it had prepared; what is gone is left so."""
    folder.destroy_key()
    folder.draws.forget()
    if staging is not None:
        shutil.rmtree(staging, ignore_errors=True)
